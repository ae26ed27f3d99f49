import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createEngine } from '../../gateway/http/create-engine.ts'
import type { UpstreamResponse } from '../../gateway/http/engine.ts'
import { passTurn, type RawUpstream, startRawUpstream, until } from '../support/gateway.ts'

const engine = createEngine()
t.teardown(() => engine.close())

const idleMs = 300

async function send({ url }: RawUpstream): Promise<UpstreamResponse> {
  const answer = await engine.send({
    origin: url,
    method: 'GET',
    path: '/',
    headers: [],
    body: undefined,
    asksForWebSocket: false,
    bodyLimitBytes: 0,
    timeouts: { connectMs: 1_000, firstByteMs: 1_000, idleMs },
    isFreshConnection: false,
    onCancellable: () => undefined,
  })
  if ('connection' in answer) throw new Error('switched protocols unasked')
  return answer
}

/** Takes an answer, every chunk of which pauses it or not. */
function read(response: UpstreamResponse, wantsMore: boolean, silenceMs?: number) {
  const seen = { bytes: 0, end: undefined as string | undefined }
  const sink = {
    data: (chunk: Uint8Array) => {
      seen.bytes += chunk.length
      return wantsMore
    },
    end: () => {
      seen.end = 'complete'
    },
    fail: ({ fault }: { fault: string }) => {
      seen.end = fault
    },
  }
  response.pipe(sink, silenceMs)
  return seen
}

/** An upstream that begins an answer of ten bytes, and says the rest when it is told to. */
async function startHalf(t: Test) {
  let asking: Socket | undefined
  const upstream = await startRawUpstream(t, (socket) => {
    asking = socket
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nbegun')
  })
  return { upstream, finish: () => void asking?.write('ended') }
}

t.test('an answer that falls silent is broken off', async (t) => {
  const { upstream } = await startHalf(t)
  const startedMs = performance.now()
  const seen = read(await send(upstream), true)
  await until(() => seen.end, 'the end')
  t.match(seen, { bytes: 5, end: 'timeout' })
  t.ok(performance.now() - startedMs >= idleMs - 5)
  await until(() => upstream.sockets()[0]?.readableEnded || upstream.sockets()[0]?.destroyed, 'the close')
})

t.test('the reader of an answer may allow it more silence', async (t) => {
  const { upstream, finish } = await startHalf(t)
  const seen = read(await send(upstream), true, 20_000)
  await new Promise((resolve) => setTimeout(resolve, idleMs + 200))
  t.equal(seen.end, undefined)
  finish()
  await until(() => seen.end, 'the end')
  t.equal(seen.end, 'complete')
})

t.test('a paused answer does not count as silent', async (t) => {
  const { upstream, finish } = await startHalf(t)
  const response = await send(upstream)
  const seen = read(response, false)
  await until(() => seen.bytes === 5, 'the first bytes')
  finish()
  await new Promise((resolve) => setTimeout(resolve, idleMs * 2))
  t.match(seen, { bytes: 5, end: undefined }, 'nothing comes before it is asked for')
  response.resume()
  await until(() => seen.end, 'the end')
  t.match(seen, { bytes: 10, end: 'complete' })
})

t.test('a connection whose last chunk was answered by a pause serves the next request', async (t) => {
  const { upstream, finish } = await startHalf(t)
  for (let round = 0; round < 3; round++) {
    const response = await send(upstream)
    const seen = read(response, false)
    await until(() => seen.bytes === 5, 'the first bytes')
    response.resume()
    finish()
    await until(() => seen.end, `the end of answer ${round}`)
    t.match(seen, { bytes: 10, end: 'complete' })
    await passTurn()
  }
  t.equal(upstream.sockets().length, 1)
})

t.test('connections are counted by their origin, busy and idle, until they close', async (t) => {
  const [one, other] = [await startHalf(t), await startHalf(t)]
  const counts = () => [one, other].map(({ upstream }) => engine.countUpstreamConnections().get(upstream.url) ?? 0)
  t.same(counts(), [0, 0])
  const seen = read(await send(one.upstream), true)
  read(await send(one.upstream), true)
  read(await send(other.upstream), true)
  t.same(counts(), [2, 1])
  one.finish()
  await until(() => seen.end !== undefined || counts()[0] === 1, 'an end')
  for (const { upstream } of [one, other]) for (const socket of upstream.sockets()) socket.destroy()
  await until(() => counts().every((count) => count === 0), 'the connections are gone')
})
