import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { watchSilentPeers } from '../../../gateway/http/server/silent-peers.ts'
import { until } from '../../support/gateway.ts'

/** Counts how often the system's table of connections is read. A read costs milliseconds for each thousand connections. */
function countReads(t: Test): () => number {
  const { createReadStream } = fs
  let count = 0
  fs.createReadStream = ((...args: Parameters<typeof createReadStream>) => {
    if (String(args[0]).startsWith('/proc/self/net/')) count += 1
    return createReadStream(...args)
  }) as typeof createReadStream
  syncBuiltinESMExports()
  t.teardown(() => {
    fs.createReadStream = createReadStream
    syncBuiltinESMExports()
  })
  return () => count
}

t.test(
  'a connection is looked up in the system only while bytes that were written to it are not acknowledged',
  async (t) => {
    const reads = countReads(t)
    // The system lists no such connection, so everything that was written to it counts as acknowledged.
    const socket = {
      bytesWritten: 0,
      remotePort: 1,
      remoteAddress: '127.0.0.1',
      localPort: 1,
      localAddress: '127.0.0.1',
    }
    const busy = { socket: socket as unknown as Socket, work: {} }
    let looks = 0
    const stop = watchSilentPeers(
      () => {
        looks += 1
        return [busy]
      },
      20,
      () => t.fail('it is not silent'),
    )
    t.teardown(stop)
    await until(() => looks > 5, 'looks')
    t.equal(reads(), 0)
    socket.bytesWritten = 1
    await until(() => reads() > 0, 'a table that is read')
    const [before, looksBefore] = [reads(), looks]
    await until(() => looks > looksBefore + 5, 'more looks')
    t.ok(reads() - before <= 2, 'both tables were read once')
  },
)

t.test('a look at many connections lets other work go in between', async (t) => {
  // Each takes a slice of its own.
  const takeTime = (): number => {
    const endMs = performance.now() + 0.6
    while (performance.now() < endMs);
    return 1
  }
  let looked = 0
  const turnsBetween: number[] = []
  let turns = 0
  const connections = Array.from({ length: 20 }, () => ({
    socket: {
      get bytesWritten() {
        looked += 1
        turnsBetween.push(turns)
        return takeTime()
      },
    } as unknown as Socket,
    work: {},
  }))
  let isOver = false
  const countTurns = (): void => {
    turns += 1
    if (!isOver) setImmediate(countTurns)
  }
  countTurns()
  const stop = watchSilentPeers(
    () => connections,
    20,
    () => t.fail('it is not silent'),
  )
  t.teardown(stop)
  await until(() => looked >= connections.length, 'a look at all of them')
  isOver = true
  t.equal(new Set(turnsBetween.slice(0, connections.length)).size, connections.length, 'a turn for each')
})
