import t from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway } from '../support/gateway.ts'

const chunks = '2\r\nok\r\n0\r\n\r\n'
const ok = (lines: string, version = '1.1'): string => `HTTP/${version} 200 OK\r\n${lines}\r\n\r\n${chunks}`

/** Answers whose framing a parser and a reader of its text may take in two ways. Each ends with these chunks. */
const answers: Readonly<Record<string, string>> = {
  'a tab behind chunked': ok('Transfer-Encoding: chunked\t'),
  'a space and a tab behind chunked': ok('Transfer-Encoding: chunked \t'),
  'a tab and a space behind chunked': ok('Transfer-Encoding: chunked\t '),
  'a tab before chunked': ok('Transfer-Encoding:\tchunked'),
  'a space behind chunked': ok('Transfer-Encoding: chunked '),
  'a space of Latin-1 behind chunked': ok('Transfer-Encoding: chunked\xa0'),
  'a form feed behind chunked': ok('Transfer-Encoding: chunked\f'),
  capitals: ok('TRANSFER-ENCODING: cHUNKED'),
  'a comma behind chunked': ok('Transfer-Encoding: chunked,'),
  'a comma before chunked': ok('Transfer-Encoding: ,chunked'),
  'commas around chunked': ok('Transfer-Encoding: , chunked ,'),
  'chunked twice in a list': ok('Transfer-Encoding: chunked, chunked'),
  'chunked in two lines': ok('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked'),
  'chunked and an empty line of it': ok('Transfer-Encoding: chunked\r\nTransfer-Encoding:'),
  'an empty coding': ok('Transfer-Encoding:'),
  'a blank coding': ok('Transfer-Encoding: \t '),
  'a coding before chunked': ok('Transfer-Encoding: gzip, chunked'),
  'a coding behind chunked': ok('Transfer-Encoding: chunked, gzip'),
  'a coding before chunked in another line': ok('Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked'),
  'a parameter': ok('Transfer-Encoding: chunked;q=1'),
  quotes: ok('Transfer-Encoding: "chunked"'),
  identity: ok('Transfer-Encoding: identity'),
  'a folded line': ok('Transfer-Encoding:\r\n chunked'),
  'a fold behind chunked': ok('Transfer-Encoding: chunked\r\n '),
  'a length before chunks': ok('Content-Length: 12\r\nTransfer-Encoding: chunked'),
  'a length behind chunks': ok('Transfer-Encoding: chunked\r\nContent-Length: 12'),
  'a length behind chunks and a tab': ok('Transfer-Encoding: chunked\t\r\nContent-Length: 12'),
  'an empty coding and a length': `HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\nContent-Length: 2\r\n\r\nok`,
  'chunks of HTTP/1.0': ok('Transfer-Encoding: chunked\r\nConnection: keep-alive', '1.0'),
  'events and a tab behind chunked': ok('Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\t'),
}

// llhttp decides about chunks by the raw value. A guard that trims it let chunk sizes pass as a body.
t.test('an answer is decoded or 503, and a client never reads its framing', async (t) => {
  let answer = ''
  const upstream = await startRawUpstream(t, (socket) => socket.write(Buffer.from(answer, 'latin1')))
  const { public: url } = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: upstream.url } },
    settings: { timeouts: { firstByteMs: 1_000, idleMs: 1_000 } },
  })
  const asked = Object.entries(answers).flatMap(([name, bytes]) => [
    [name, bytes],
    [`${name}, kept`, bytes],
  ])
  for (const [name = '', bytes = ''] of asked) {
    answer = bytes
    const connection = name.endsWith(', kept') ? 'keep-alive' : 'close'
    const { status, text } = await call(url, { path: '/x', headers: { connection } })
    if (status !== 503) t.same([status, text], [200, 'ok'], name)
    else t.match(text, 'upstream_unavailable', name)
  }
})

t.test('no connection is reused behind chunks of HTTP/1.0, which has none', async (t) => {
  const upstream = await startRawUpstream(t, (socket) =>
    socket.write(ok('Transfer-Encoding: chunked\r\nConnection: keep-alive', '1.0')),
  )
  const { public: url } = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: upstream.url } },
  })
  for (let count = 0; count < 3; count += 1) t.equal((await call(url, { path: '/x' })).text, 'ok')
  t.equal(upstream.sockets().length, 3)
})

t.test('the length that a client reads is the one that the parser read', async (t) => {
  const upstream = await startRawUpstream(t, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0000000002\r\n\r\nok'),
  )
  const { public: url } = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: upstream.url } },
  })
  const client = await openRawClient(t, url)
  client.send('GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')
  t.match(await client.closed(), /\r\ncontent-length: 2\r\n/i)
})
