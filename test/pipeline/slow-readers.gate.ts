import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { composeRequest } from '../support/crowd.ts'
import { beginStream, startCrowdUpstream } from '../support/crowd-upstream.ts'
import { writeEvent } from '../support/event-streams.ts'
import { until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { findMeasureLack, measurable, readFigures } from '../support/process-figures.ts'
import { startReplica } from '../support/replicas.ts'
import { modelRoutes, responsesPath, toChunk } from '../support/streams.ts'
import { watchHeld } from '../support/watch-held.ts'
import { connectSlowly } from './slow-reader.ts'

/** The longest wait on a loaded machine. */
const patienceMs = 30_000

const slowCount = 100

testUnlessLacking(
  t,
  'slow readers hold up a fast upstream, and little is piled up for them',
  testSlow,
  findMeasureLack(),
)

async function testSlow(t: Test): Promise<void> {
  const said = new Map<Socket, number>()
  const upstream = await startCrowdUpstream(t, (socket) => {
    beginStream(socket)
    talkOn(socket, (bytes) => said.set(socket, bytes))
  })
  const replica = await startReplica(
    t,
    { routes: modelRoutes, upstreams: { agents: { url: upstream.url } }, settings: { log: { level: 'warn' } } },
    measurable,
  )
  const texts: string[] = Array(slowCount).fill('')
  const open = (index: number): void => {
    const pace = { bytes: 1_024, everyMs: 1_000 }
    const socket = connectSlowly(t, replica.public, pace, (bytes) => {
      texts[index] += bytes.toString('latin1')
    })
    socket.write(composeRequest({ path: responsesPath, headers: {} }))
  }
  const saidBytes = (): number => [...said.values()].reduce((sum, bytes) => sum + bytes, 0)
  const { heapBytes, externalBytes } = await readFigures(replica)
  const highest = await watchHeld(replica, async () => {
    for (let index = 0; index < slowCount; index++) open(index)
    await until(() => said.size === slowCount, 'the streams', patienceMs)
    // Ten times the readers' share is still little for an upstream that is not stopped, which sends as much at once.
    await until(
      async () => {
        const before = saidBytes()
        await sleep(1_000)
        return saidBytes() - before < slowCount * 10_240
      },
      'the upstreams’ being held up',
      patienceMs,
    )
    const before = texts.map(({ length }) => length)
    const isRead = (): boolean => texts.every(({ length }, index) => length > (before[index] ?? 0))
    await until(isRead, 'that each reader gets more all the same', patienceMs)
  })
  const grown = Math.round((highest - heapBytes - externalBytes) / slowCount)
  t.comment(`each: ${grown} bytes at most, after ${Math.round(saidBytes() / slowCount)} bytes of its upstream`)
  t.ok(grown < 512 * 1024, `${grown} bytes`)
  const sequences = texts.map((text) =>
    [...text.matchAll(/"sequence_number":(\d+),/g)].map(([, number]) => Number(number)),
  )
  t.ok(
    sequences.every((numbers) => numbers.length > 1 && numbers.every((number, index) => number === index)),
    'in order, and whole',
  )
}

/** Event after event, as fast as they are taken. */
function talkOn(socket: Socket, tell: (bytes: number) => void): void {
  const delta = 'x'.repeat(900)
  let sequence = 0
  let bytes = 0
  const talk = (): void => {
    let isTaken = true
    while (isTaken && !socket.destroyed) {
      const events = Array.from({ length: 32 }, () => writeEvent('response.output_text.delta', ++sequence, { delta }))
      const chunk = toChunk(events.join(''))
      bytes += chunk.length
      isTaken = socket.write(chunk)
    }
    tell(bytes)
  }
  socket.on('drain', talk)
  talk()
}
