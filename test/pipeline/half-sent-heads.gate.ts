import type { Test } from 'tap'
import t from 'tap'
import { call } from '../support/client.ts'
import { anyPort, openRoute, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { findMeasureLack, measurable, readFigures } from '../support/process-figures.ts'
import { startReplica } from '../support/replicas.ts'
import { gatherThrong } from '../support/throng.ts'
import { watchHeld } from '../support/watch-held.ts'

const crowdSize = 10_000
const mebibyte = 1024 * 1024
const heldBytes = 64 * mebibyte

/**
 * Room beyond the held bytes for the connections themselves and for reads that are not collected yet. It is an estimate. The
 * bytes sent are 286 MiB, more than both together, so heads that no account knew would show.
 */
const besides = crowdSize * 16 * 1024

testUnlessLacking(
  t,
  'ten thousand half-sent heads of 32 KiB stay within heldBytes, and others are served',
  testHeads,
  findMeasureLack(),
)

async function testHeads(t: Test): Promise<void> {
  const upstream = await startHttpUpstream(t)
  const listeners = { public: { ...anyPort, maxConnections: crowdSize + 1_000 }, decision: anyPort, admin: anyPort }
  const settings = { limits: { heldBytes }, listeners }
  const replica = await startReplica(
    t,
    { routes: [openRoute], upstreams: { platform: { url: upstream.url } }, settings },
    measurable,
  )
  const { heapBytes, externalBytes } = await readFigures(replica)
  const line = `x-part: ${'x'.repeat(15_000)}\r\n`
  const held: number[] = []
  const note = async (): Promise<void> => {
    const { text } = await call(replica.admin, { path: '/metrics' })
    held.push(Number(/^sallyport_held_bytes (\d+)/m.exec(text)?.[1] ?? 0))
  }
  const highest = await watchHeld(replica, async () => {
    const crowd = await gatherThrong(t, replica.public, crowdSize)
    for (const part of [`GET /x HTTP/1.1\r\nhost: gateway\r\n${line}`, line, 'x-last: '])
      for (const [index, socket] of crowd.sockets.entries()) {
        if (socket.writable) socket.write(part)
        if (index % 500 === 499) await note()
      }
    await note()
    const answer = await call(replica.public, { path: '/x', localAddress: '127.0.0.2' })
    t.equal(answer.status, 200, 'another address is served')
    t.ok(crowd.open().length > 100, `${crowd.open().length} of the crowd stay open`)
    await crowd.leave()
  })
  const most = Math.max(...held)
  t.ok(most > heldBytes / 2 && most <= heldBytes, `the gateway knows of ${Math.round(most / mebibyte)} MiB`)
  const grown = highest - heapBytes - externalBytes
  t.ok(grown < heldBytes + besides, `${Math.round(grown / mebibyte)} MiB were held`)
  t.comment(`${Math.round(grown / mebibyte)} MiB of memory, of which the account had ${Math.round(most / mebibyte)}`)
  await until(async () => {
    await note()
    return held.at(-1) === 0
  }, 'nothing being held')
}
