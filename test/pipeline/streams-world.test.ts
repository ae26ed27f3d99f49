import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { JsonValue } from '../support/client.ts'
import { parseEvents } from '../support/event-streams.ts'
import { until } from '../support/gateway.ts'
import { type ReadAnswer, readAnswer } from '../support/streams.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnProcess: true })
const { robot } = world.serviceAccounts

/** A streaming call of the agent, which plays this script; without one it answers as it likes. */
function ask(operation: string, script?: readonly JsonValue[], headers = bearer(robot.apiKey)): Promise<ReadAnswer> {
  const body = JSON.stringify({ input: 'hi', stream: true, messages: [], ...(script && { metadata: { script } }) })
  const url = `${world.public}/agent/${world.agents.acme}/${operation}`
  return readAnswer(url, { 'content-type': 'application/json', ...headers }, body)
}

const created = { event: { type: 'response.created', sequence_number: 0, response: { id: 'resp_7', created_at: 17 } } }
const delta = { event: { type: 'response.output_text.delta', sequence_number: 1, delta: 'Hel' } }
const completed = { event: { type: 'response.completed', sequence_number: 2, response: { id: 'resp_7' } } }

const readEvents = async (answer: ReadAnswer): Promise<readonly JsonValue[]> =>
  parseEvents(await answer.whole()).map(({ data }) => (data.startsWith('{') ? JSON.parse(data) : data))

t.test('the agent’s own streams reach their clients whole', async (t) => {
  const responses = await readEvents(await ask('responses'))
  t.match(responses[0], { type: 'response.created' })
  t.match(responses.at(-1), { type: 'response.completed' })
  const chat = await readEvents(await ask('chat/completions', undefined, oauth(world.users.client)))
  t.equal(chat.at(-1), '[DONE]')
})

for (const end of ['fin', 'rst'])
  t.test(`a worker that drops its connection by ${end} mid-run is worker_disconnected`, async (t) => {
    const events = await readEvents(await ask('responses', [created, delta, { waitMs: 200 }, { end }]))
    t.equal(events.length, 3)
    t.match(events[2], {
      type: 'response.failed',
      sequence_number: 2,
      response: {
        id: 'resp_7',
        object: 'response',
        created_at: 17,
        status: 'failed',
        output: [],
        error: { code: 'server_error', message: String },
        metadata: { x_service_error_code: 'worker_disconnected', x_service_error_message: String },
      },
    })
  })

t.test('half an event of the worker never reaches the client', async (t) => {
  const answer = await ask('responses', [
    created,
    { raw: 'event: response.completed\ndata: {"type":' },
    { waitMs: 100 },
  ])
  const events = await readEvents(answer)
  t.same(
    events.map(({ type }) => type),
    ['response.created', 'response.failed'],
  )
  t.notMatch(answer.text(), /response\.completed/)
})

t.test('after its terminal event a worker may do what it likes', async (t) => {
  for (const end of ['fin', 'rst']) {
    const events = await readEvents(await ask('responses', [created, completed, { waitMs: 100 }, { end }]))
    t.same(
      events.map(({ type }) => type),
      ['response.created', 'response.completed'],
      end,
    )
  }
})

t.test('a worker that drops its connection before its first event is 503', async (t) => {
  for (const operation of ['responses', 'chat/completions'])
    for (const script of [[{ end: 'fin' }], [{ comment: 'ping' }, { waitMs: 50 }, { end: 'rst' }]]) {
      const answer = await ask(operation, script)
      t.equal(answer.status, 503)
      t.match(JSON.parse((await answer.whole()).toString()), {
        error: { message: String, type: 'server_error', code: 'upstream_unavailable' },
      })
    }
})

t.test('a client that leaves a hanging worker sets it free', async (t) => {
  await world.clearRecorder()
  const answer = await ask('responses', [created, { end: 'hang' }])
  await until(() => answer.text().includes('response.created'), 'the first event')
  answer.leave()
  await until(async () => (await world.recorded())[0]?.closedAtMs, 'the close of the worker’s connection', 1_000)
  t.equal((await world.recorded())[0]?.aborted, true)
})

t.test('the log says that a stream failed, and why', async (t) => {
  const requestId = 'failed-stream'
  const headers = { ...bearer(robot.apiKey), 'x-request-id': requestId }
  await (await ask('responses', [created, { waitMs: 50 }, { end: 'rst' }], headers)).whole()
  const find = (): string | undefined =>
    readFileSync(join(world.directory, 'gateway.log'), 'utf8')
      .split('\n')
      .find((line) => line.includes(requestId))
  await until(find, 'the line')
  t.match(JSON.parse(find() ?? '{}'), {
    level: 'warn',
    msg: 'stream failed',
    route: 'agents.responses',
    status: 200,
    reason: 'allowed',
    failure: 'worker_disconnected',
    error: { name: 'UpstreamError' },
  })
})
