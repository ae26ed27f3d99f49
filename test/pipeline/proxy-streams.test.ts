import t from 'tap'
import { call } from '../support/client.ts'
import { createdEvent, deltaEvent } from '../support/event-streams.ts'
import { until } from '../support/gateway.ts'
import { bodyOf, get, host, post, startProxy, valuesOf } from '../support/proxy.ts'
import { chunkedHead, streamHead, toChunk } from '../support/streams.ts'

const proxy = await startProxy(t)
const { credential } = proxy

const countRequests = async (method: string, status: number): Promise<number> => {
  const { text } = await call(proxy.gateway.admin, { path: '/metrics' })
  const series = `sallyport_requests_total\\{route="any",method="${method}",status="${status}"\\} (\\d+)`
  return Number(new RegExp(series).exec(text)?.[1] ?? 0)
}

for (const leave of ['end', 'resetAndDestroy'] as const)
  proxy.testCase(
    t,
    `D03: a client that leaves by ${leave} before the answer releases the upstream, and is counted as no success`,
    { request: post('Content-Length: 2\r\n', '{}'), say: () => {} },
    async (t, { client, head, sockets }) => {
      const before = { left: await countRequests('POST', 0), served: await countRequests('POST', 200) }
      await head()
      client.socket[leave]()
      await until(() => sockets().every((socket) => socket.readableEnded || socket.destroyed), 'the release', 1_000)
      await until(async () => (await countRequests('POST', 0)) === before.left + 1, 'the count of those who left')
      t.equal(await countRequests('POST', 200), before.served)
    },
  )

const lines = 'X-Accel-Buffering: no\r\nCache-Control: no-cache, no-transform'
const head = chunkedHead.replace('\r\n\r\n', `\r\n${lines}\r\n\r\n`)
for (const [surface, request] of [
  ['platform', get()],
  ['model', post('Content-Length: 0\r\n', '', '/agent/3/responses')],
] as const)
  proxy.testCase(
    t,
    `D04: events of the ${surface} surface pass one by one, at once, under the upstream’s own head`,
    { request, say: (socket, soFar) => soFar.endsWith('\r\n\r\n') && socket.write(head) },
    async (t, drive) => {
      await drive.head()
      const [socket] = drive.sockets()
      const delays: number[] = []
      // A buffer that waits makes each event late; a busy machine makes some of them late.
      for (let number = 1; number <= 5 || (number <= 50 && Math.min(...delays) >= 20); number++) {
        const startedMs = performance.now()
        socket?.write(toChunk(deltaEvent(number)))
        // The next one is written only when this one has come through: a buffer would hold both ends up.
        await drive.client.until(new RegExp(`"sequence_number":${number},[^\\n]*\\n\\n`))
        delays.push(performance.now() - startedMs)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      t.ok(Math.min(...delays) < 20, delays.join())
      const text = drive.client.text()
      t.same(valuesOf(text, 'x-accel-buffering'), ['no'])
      t.same(valuesOf(text, 'cache-control'), ['no-cache, no-transform, private'])
      t.same(valuesOf(text, 'content-length'), [])
    },
  )

for (const [when, bytes] of [
  ['before its first byte', ''],
  ['before its first event', `${streamHead}\r\n: ping\n\n`],
  ['within its first event', `${streamHead}\r\n${createdEvent.slice(0, 20)}`],
] as const)
  for (const end of ['end', 'resetAndDestroy'] as const)
    proxy.testCase(
      t,
      `D07: a worker that dies ${when} by ${end} is 503 in the shape of the model API`,
      {
        request: post('Content-Length: 0\r\n', '', '/agent/3/responses'),
        say: (socket, soFar) => {
          if (!soFar.endsWith('\r\n\r\n')) return
          socket.write(bytes)
          setTimeout(() => socket[end](), 50)
        },
      },
      async (t, { client }) => {
        const text = await client.until(/"upstream_unavailable"/)
        t.match(text, /^HTTP\/1\.1 503 /)
        t.match(JSON.parse(bodyOf(text)), {
          error: { message: String, type: 'server_error', code: 'upstream_unavailable' },
        })
      },
    )

for (const [name, method, target] of [
  ['D14: CONNECT is 405, and opens nothing', 'CONNECT', '127.0.0.1:1'],
  ['D15: TRACE is 405, and shows no head', 'TRACE', '/x/1'],
] as const)
  proxy.testCase(
    t,
    name,
    { request: (lines) => `${method} ${target} HTTP/1.1\r\n${host}${lines}\r\n`, strangerStatus: 405 },
    async (t, { client, received }) => {
      const text = await client.until(/"method_not_allowed"/)
      t.match(text, /^HTTP\/1\.1 405 /)
      t.match(valuesOf(text, 'allow'), [/GET/])
      client.send(`GET /x/1 HTTP/1.1\r\n${host}${credential}Connection: close\r\n\r\n`)
      // Bytes after a CONNECT may be anything, and are not read as a request.
      t.equal((await client.closed()).includes('HTTP/1.1 200 '), method === 'TRACE')
      t.notMatch(received().join(), /CONNECT|TRACE/)
    },
  )
