import t from 'tap'
import { createdEvent, deltaEvent, parseEvents } from '../support/event-streams.ts'
import { openRoute, until } from '../support/gateway.ts'
import { chatPath, modelRoutes, responsesPath, startStreamPair, streamHead } from '../support/streams.ts'

/** Short enough to wait for, long enough for a busy machine to tell one from the other. */
const keepAliveMs = 300
const streamIdleMs = 1_500

const [responsesRoute, chatRoute] = modelRoutes
const { upstream, open } = await startStreamPair(t, {
  settings: { timeouts: { keepAliveMs, streamIdleMs, idleMs: 600 } },
  routes: [
    responsesRoute ?? {},
    chatRoute ?? {},
    { ...responsesRoute, id: 'hasty', match: { path: '/hasty' }, timeouts: { streamIdleMs: 100 } },
    { ...openRoute, upstream: 'agents' },
  ],
})

const failureCode = (body: Buffer): unknown =>
  JSON.parse(parseEvents(body).at(-1)?.data ?? '{}').response?.metadata.x_service_error_code

t.test('the head of a stream without an event goes out with the first keep-alive', async (t) => {
  const startedMs = performance.now()
  let say = (_text: string): void => {}
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n`)
    say = (text) => void socket.write(text)
  })
  t.ok(performance.now() - startedMs >= keepAliveMs)
  t.equal(answer.status, 200)
  // Between two looks of a busy machine there may be more of them.
  const keepAlives = '^(?::keep-alive\n\n)+'
  await until(() => new RegExp(`${keepAlives}$`).test(answer.text()), 'the keep-alive')
  say(createdEvent)
  await until(() => answer.text().includes(createdEvent), 'the event')
  t.match(answer.text(), new RegExp(keepAlives))
  answer.leave()
})

t.test('a quiet stream gets keep-alives between its events, and never in half of one', async (t) => {
  let say = (_text: string): void => {}
  const answer = await open(responsesPath, (socket) => {
    say = (text) => void socket.write(text)
    say(`${streamHead}\r\n${createdEvent}${deltaEvent(1).slice(0, 25)}`)
  })
  const twice = createdEvent + ':keep-alive\n\n'.repeat(2)
  await until(() => answer.text().startsWith(twice), 'two keep-alives')
  say(deltaEvent(1).slice(25))
  await until(() => answer.text().includes(`:keep-alive\n\n${deltaEvent(1)}`), 'the event')
  t.equal(parseEvents(answer.body()).length, 2)
  answer.leave()
})

t.test('a stream may be silent for longer than an ordinary answer, and then fails', async (t) => {
  const startedMs = performance.now()
  const answer = await open(responsesPath, (socket) => socket.write(`${streamHead}\r\n${createdEvent}`))
  const body = await answer.whole()
  t.ok(performance.now() - startedMs >= streamIdleMs)
  t.equal(failureCode(body), 'upstream_timeout')
  const last = upstream.sockets().at(-1)
  await until(() => last?.destroyed || last?.readableEnded, 'the close of the upstream', 1_000)
})

t.test('comments of the upstream are not silence', async (t) => {
  const startedMs = performance.now()
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n${createdEvent}`)
    let count = 0
    const timer = setInterval(() => {
      socket.write(': ping\n\n')
      if (++count === 10) clearInterval(timer)
    }, 200)
  })
  t.equal(failureCode(await answer.whole()), 'upstream_timeout')
  t.ok(performance.now() - startedMs >= 1_900 + streamIdleMs)
})

t.test('silence after keep-alives alone is a response.created and a response.failed', async (t) => {
  const answer = await open(responsesPath, (socket) => socket.write(`${streamHead}\r\n`))
  const [created, failed, ...more] = parseEvents(await answer.whole())
  t.same(more, [])
  const [first, second] = [JSON.parse(created?.data ?? ''), JSON.parse(failed?.data ?? '')]
  t.match(first, { type: 'response.created', sequence_number: 0, response: { status: 'in_progress' } })
  t.match(second, { type: 'response.failed', sequence_number: 1, response: { id: first.response.id } })
})

t.test('silence of a chat stream after keep-alives alone is the error alone', async (t) => {
  const answer = await open(chatPath, (socket) => socket.write(`${streamHead}\r\n`))
  const [failed, ...more] = parseEvents(await answer.whole())
  t.same(more, [])
  t.match(JSON.parse(failed?.data ?? ''), { error: { type: 'server_error' }, response: { id: /^chatcmpl-/ } })
})

t.test('silence before the first event is 503 while the head is held', async (t) => {
  const answer = await open('/hasty', (socket) => socket.write(`${streamHead}\r\n: ping\n\n`))
  t.equal(answer.status, 503)
  t.match(JSON.parse((await answer.whole()).toString()), { error: { type: 'server_error', code: 'upstream_timeout' } })
})

t.test('silence after the terminal event is a clean end and nothing else', async (t) => {
  const stream = `${createdEvent}data: {"type":"response.incomplete"}\n\n`
  const answer = await open(responsesPath, (socket) => socket.write(`${streamHead}\r\n${stream}`))
  t.equal((await answer.whole()).toString(), stream)
})

t.test('streams of other surfaces are ordinary answers', async (t) => {
  const answer = await open('/elsewhere', (socket) => socket.end(`${streamHead}\r\ndata: half`))
  t.equal((await answer.whole()).toString(), 'data: half')
  const silent = await open('/elsewhere', (socket) => socket.write(`${streamHead}\r\n${createdEvent}`))
  await t.rejects(silent.whole(), 'broken after its own silence')
})
