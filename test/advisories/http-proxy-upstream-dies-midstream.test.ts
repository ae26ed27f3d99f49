import type { Socket } from 'node:net'
import t from 'tap'
import { startFairClock } from '../support/fair-clock.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'

const deaths: Readonly<Record<string, (socket: Socket) => void>> = {
  'a FIN': (socket) => socket.end(),
  'a reset': (socket) => socket.resetAndDestroy(),
}
const framings: Readonly<Record<string, string>> = {
  chunks: 'transfer-encoding: chunked\r\n\r\na\r\ndata: {}\n\n\r\n',
  'a length': 'content-length: 1000\r\n\r\ndata: {}\n\n',
  'no framing': '\r\ndata: {}\n\n',
}

// http-proxy 1.18.1 on Node 20: the client of an upstream that dies in the middle of its answer waits forever.
for (const [how, die] of Object.entries(deaths))
  for (const [framing, rest] of Object.entries(framings))
    t.test(`an upstream that dies in a stream with ${framing} by ${how} never leaves its client waiting`, async (t) => {
      const upstream = await startRawUpstream(t, (socket) => {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n${rest}`)
      })
      const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
      const client = await openRawClient(t, gateway.public)
      client.send('GET /stream HTTP/1.1\r\nHost: h\r\n\r\n')
      await client.until(/data: \{\}\n\n/)
      const passedMs = startFairClock(t)
      for (const socket of upstream.sockets()) die(socket)
      // A dead end that looks like a complete one is the stream's own matter; here the client must get an end at all.
      await client.until(/\r\n0\r\n\r\n$/).catch(() => client.closed())
      t.ok(passedMs() < 1_000, `${passedMs()} ms`)
    })
