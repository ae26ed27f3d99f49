import { gzipSync } from 'node:zlib'
import t from 'tap'
import { call } from '../support/client.ts'
import { createdEvent, parseEvents } from '../support/event-streams.ts'
import { responsesPath, startStreamPair, streamHead } from '../support/streams.ts'

const { gateway, open, expect } = await startStreamPair(t)

t.test('a compressed stream passes as it is, and none is asked for', async (t) => {
  const bytes = gzipSync(createdEvent)
  let asked = ''
  const answer = await open(responsesPath, (socket, head) => {
    asked = head
    socket.write(`${streamHead}content-encoding: gzip\r\ncontent-length: ${bytes.length}\r\n\r\n`)
    socket.write(bytes)
  })
  t.match(answer, { headers: { 'content-encoding': 'gzip', 'content-length': String(bytes.length) } })
  t.ok((await answer.whole()).equals(bytes))
  t.match(asked, /\r\naccept-encoding: identity\r\n/)
  t.equal(asked.match(/accept-encoding/gi)?.length, 1)
})

t.test('a stream under a coding that changes no byte is watched like any other', async (t) => {
  for (const coding of ['none', 'Identity', 'utf-8', '', 'identity, none']) {
    const answer = await open(responsesPath, (socket) =>
      socket.end(`${streamHead}content-encoding: ${coding}\r\n\r\n${createdEvent}data: half`),
    )
    const events = parseEvents(await answer.whole())
    t.equal(events.length, 2, coding)
    t.equal(JSON.parse(events[1]?.data ?? '{}').type, 'response.failed', coding)
  }
})

t.test('a stream is compressed whichever line of its codings says so', async (t) => {
  const bytes = gzipSync(createdEvent)
  for (const lines of [
    'content-encoding: identity\r\ncontent-encoding: gzip\r\n',
    'content-encoding: none, gzip\r\n',
  ]) {
    const answer = await open(responsesPath, (socket) => {
      socket.write(`${streamHead}${lines}content-length: ${bytes.length}\r\n\r\n`)
      socket.write(bytes)
    })
    t.ok((await answer.whole()).equals(bytes), lines)
  }
})

t.test('an ordinary answer of the model surface passes untouched, and breaks where it breaks', async (t) => {
  const body = '{"id":"resp_1"}'
  const answer = await open(responsesPath, (socket) =>
    socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`),
  )
  t.equal((await answer.whole()).toString(), body)
  const broken = await open(responsesPath, (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n${body}`),
  )
  await t.rejects(broken.whole())
})

t.test('429 passes with its Retry-After', async (t) => {
  const answer = await open(responsesPath, (socket) =>
    socket.write('HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nslow'),
  )
  t.match(answer, { status: 429, headers: { 'retry-after': '7' } })
  t.equal((await answer.whole()).toString(), 'slow')
})

t.test('409 says that it is not to be retried', async (t) => {
  for (const line of ['', 'X-Should-Retry: true\r\n']) {
    const answer = await open(responsesPath, (socket) =>
      socket.write(`HTTP/1.1 409 Conflict\r\n${line}content-length: 2\r\n\r\n{}`),
    )
    t.equal(answer.status, 409)
    t.equal(answer.headers['x-should-retry'], 'false')
    t.equal((await answer.whole()).toString(), '{}')
  }
})

t.test('a 5xx that is not JSON takes the model’s shape, with its status and Retry-After', async (t) => {
  for (const status of [500, 502, 503, 504]) {
    const answer = await open(responsesPath, (socket) =>
      socket.write(
        `HTTP/1.1 ${status} Oh\r\ncontent-type: text/html\r\nretry-after: 9\r\ncontent-length: 4\r\n\r\n<h1>`,
      ),
    )
    t.match(answer, { status, headers: { 'content-type': /^application\/json/, 'retry-after': '9' } })
    const { error } = JSON.parse((await answer.whole()).toString())
    t.match(error, { message: String, type: 'server_error', code: 'upstream_error' })
  }
})

t.test('a 5xx in JSON passes unchanged, whatever its shape', async (t) => {
  for (const type of ['application/json; charset=utf-8', 'application/problem+json']) {
    const answer = await open(responsesPath, (socket) =>
      socket.write(`HTTP/1.1 503 Oh\r\ncontent-type: ${type}\r\ncontent-length: 14\r\n\r\n{"detail":"x"}`),
    )
    t.equal(answer.status, 503)
    t.equal((await answer.whole()).toString(), '{"detail":"x"}')
  }
})

t.test('an answer without a body is not a stream, whatever its type', async (t) => {
  const heads = [
    ['HEAD', `${streamHead}\r\n`, 200],
    ['POST', `${streamHead.replace('200 OK', '204 No Content')}\r\n`, 204],
  ] as const
  for (const [method, head, status] of heads) {
    const headers = { 'x-request-id': expect((socket) => socket.write(head)) }
    t.match(await call(gateway.public, { method, path: responsesPath, headers }), { status, text: /^$/ })
  }
})
