import type { ServerResponse } from 'node:http'
import t from 'tap'
import { call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { prepareLogouts } from '../support/logout-fixture.ts'
import { eventTypes, startTransmitter, withTransmitter } from '../support/transmitter.ts'
import { startTestWorld } from '../support/world.ts'
import { polled, pollSecret, startEventStream } from './event-stream.ts'

const world = await startTestWorld(t)
const fixture = await prepareLogouts(t, world)
const { database } = fixture
const transmitter = await startTransmitter(t)

const readMetrics = async ({ admin }: { admin: string }): Promise<string> =>
  (await call(admin, { path: '/metrics' })).text

const opaque = { format: 'opaque', id: 'stream-1' }

const verifiedAt = 'stream_verified_timestamp_seconds\\{[^}]*\\}'

const verified = (jti: string, event: object): Promise<string> =>
  transmitter.tell(eventTypes.verification, opaque, event, { jti })

const readNumber = (text: string, name: string): number =>
  Number(new RegExp(`${name} (\\d\\S*)\\n`).exec(text)?.[1] ?? Number.NaN)

t.test('replicas together ask for a verification event in each interval, and any of them takes it', async (t) => {
  const stream = await startEventStream(t)
  const { verification } = stream
  let count = 0
  const answer = (state: string, response: ServerResponse): void => {
    response.writeHead(204).end()
    count += 1
    const id = `verification-${count}`
    verified(id, { state }).then((token) => stream.offer({ [id]: token }), t.fail)
  }
  stream.answerVerification(answer)
  const settings = withTransmitter(fixture, transmitter, { ...polled(stream), verification })
  const replicas = await Promise.all([1, 2].map(() => startTestGateway(t, { world, settings })))
  await until(() => stream.verifications.length > 3, 'questions')
  t.same(stream.verifications[0], {
    stream_id: 'stream-1',
    state: stream.verifications[0]?.state,
    authorization: `Bearer ${pollSecret}`,
  })
  const at = (state = ''): number => Number(state.split('.')[0])
  const moments = stream.verifications.map(({ state }) => at(state))
  t.equal(new Set(moments).size, moments.length, 'one in each second')
  await until(async () => {
    const texts = await Promise.all(replicas.map(readMetrics))
    return texts.every((text) => readNumber(text, verifiedAt) >= (moments.at(-1) ?? 0))
  }, 'the moment at both replicas')
  const [text] = await Promise.all(replicas.map(readMetrics))
  t.match(text, /verification_interval_seconds\{transmitter="idp"[^}]*\} 1\n/)
  t.same(stream.errors, new Map())

  stream.answerVerification((_state, response) => void response.writeHead(204).end())
  const known = stream.verifications.at(-1)?.state ?? ''
  const forged = `${at(known) + 500}.${known.split('.')[1]}`
  for (const [id, state] of Object.entries({ forged, foreign: 'by hand', empty: '', cut: known.slice(0, -1) }))
    stream.offer({ [id]: await verified(id, { state }) })
  stream.offer({ stateless: await verified('stateless', {}), old: await verified('old', { state: known }) })
  await until(() => stream.waiting.size === 0, 'the replies')
  for (const id of ['forged', 'foreign', 'empty', 'cut']) t.equal(stream.errors.get(id), 'invalid_state', id)
  t.ok(['stateless', 'old'].every((id) => stream.acked.includes(id)))
  const readMissed = async (): Promise<number> => {
    const texts = await Promise.all(replicas.map(readMetrics))
    return texts.reduce(
      (sum, one) => sum + readNumber(one, 'verifications_total\\{transmitter="idp",outcome="missed"[^}]*\\}'),
      0,
    )
  }
  await until(async () => (await readMissed()) > 1, 'missed events')
  const { rows } = await database.query('select * from event_streams')
  t.match(rows, [{ transmitter: 'idp' }])
  t.ok(rows[0].verified_at.getTime() / 1_000 < at(known) + 500, 'a state that was not asked for moves nothing')
  const silent = await readMetrics(replicas[0] as (typeof replicas)[number])
  t.ok(readNumber(silent, verifiedAt) < rows[0].asked_at.getTime() / 1_000)
  const elsewhere = await startHttpUpstream(t)
  stream.answerVerification((_state, response) => void response.writeHead(307, { location: elsewhere.url }).end())
  await until(async () => {
    const texts = await Promise.all(replicas.map(readMetrics))
    return texts.some((one) => /verifications_total\{transmitter="idp",outcome="failed"[^}]*\} [1-9]/.test(one))
  }, 'a question that failed')
  t.same(elsewhere.ids(), [])
})
