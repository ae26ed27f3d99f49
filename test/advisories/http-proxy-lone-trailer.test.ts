import t from 'tap'
import { call, callRaw } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'

// http-proxy 1.18.1 on Node 20: one such request ends the process (ERR_HTTP_TRAILER_INVALID).
t.test('a Trailer header without a chunked body does no harm, in a request or in a response', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ntrailer: z\r\ncontent-length: 2\r\n\r\nok')
  })
  const gateway = await startTestGateway(t, { routes: [openRoute], upstreams: { platform: { url: upstream.url } } })
  for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS']) {
    const text = await callRaw(
      gateway.public,
      `${method} /x HTTP/1.1\r\nHost: h\r\nTrailer: z\r\nConnection: close\r\n\r\n`,
    )
    t.match(text, /^HTTP\/1\.1 200 [\s\S]*ok$/, method)
    t.notMatch(text, /trailer/i)
  }
  t.notMatch(upstream.received().join(), /trailer/i)
  t.equal((await call(gateway.public, { path: '/after' })).status, 200, 'the process goes on')
})
