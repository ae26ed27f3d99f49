import t from 'tap'
import { completedEvent, createdEvent, parseEvents } from '../support/event-streams.ts'
import { openRoute, until } from '../support/gateway.ts'
import { chatPath, modelRoutes, responsesPath, startStreamPair, streamHead } from '../support/streams.ts'

t.test('at the time-out of a drain every open stream ends with a terminal event of its own', async (t) => {
  const { gateway, open } = await startStreamPair(t, { routes: [...modelRoutes, { ...openRoute, upstream: 'agents' }] })
  let isAsked = false
  const waiting = open(responsesPath, (socket) => {
    isAsked = true
    socket.write(`${streamHead}\r\n: thinking\n\n`)
  })
  const responses = await open(responsesPath, (socket) => socket.write(`${streamHead}\r\n${createdEvent}`))
  const chat = await open(chatPath, (socket) => socket.write(`${streamHead}\r\ndata: {}\n\n`))
  const done = await open(responsesPath, (socket) => socket.write(`${streamHead}\r\n${completedEvent}`))
  const other = await open('/elsewhere', (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf'))
  await until(() => isAsked && done.text() === completedEvent, 'every stream')

  const drained = gateway.drain({ delayMs: 0, timeoutMs: 300 })
  t.equal(responses.hasEnded(), false, 'not before the time-out')
  const bodies = await Promise.all([responses.whole(), chat.whole(), done.whole()])
  const failure = { type: 'response.failed', response: { metadata: { x_service_error_code: 'gateway_draining' } } }
  for (const body of bodies.slice(0, 2)) t.match(JSON.parse(parseEvents(body).at(-1)?.data ?? '{}'), failure)
  t.equal(bodies[2]?.toString(), completedEvent, 'nothing follows a terminal event')

  const refused = await waiting
  t.equal(refused.status, 503)
  t.match(JSON.parse((await refused.whole()).toString()), { error: { type: 'server_error', code: 'gateway_draining' } })
  await t.rejects(other.whole(), 'an ordinary answer is broken')
  await drained
})

t.test('a stream that ends before the time-out of a drain passes unchanged', async (t) => {
  const { gateway, open } = await startStreamPair(t)
  let end = (): void => {}
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n${createdEvent}`)
    end = () => void socket.end(completedEvent)
  })
  const drained = gateway.drain({ delayMs: 0, timeoutMs: 20_000 })
  end()
  t.equal((await answer.whole()).toString(), createdEvent + completedEvent)
  await drained
})

t.test('a stream whose head comes after the time-out of a drain is refused', async (t) => {
  const { gateway, open } = await startStreamPair(t)
  let begin = (): void => {}
  const late = open(responsesPath, (socket) => {
    begin = () => void socket.write(`${streamHead}\r\n${createdEvent}`)
  })
  const early = await open(responsesPath, (socket) => socket.write(`${streamHead}\r\n${createdEvent}`))
  const drained = gateway.drain({ delayMs: 0, timeoutMs: 100 })
  await early.whole()
  begin()
  t.match(JSON.parse((await (await late).whole()).toString()), { error: { code: 'gateway_draining' } })
  await drained
})
