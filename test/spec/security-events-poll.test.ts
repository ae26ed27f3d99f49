import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { prepareLogouts, seconds, statusOf } from '../support/logout-fixture.ts'
import { startReplica } from '../support/replicas.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { eventAudience, eventTypes, startTransmitter, withTransmitter } from '../support/transmitter.ts'
import { patience, startTestWorld } from '../support/world.ts'
import { type EventStream, polled, pollSecret, startEventStream } from './event-stream.ts'

const world = await startTestWorld(t)
const fixture = await prepareLogouts(t, world)
const { issuer, database, addSubject } = fixture
const transmitter = await startTransmitter(t)

const user = (sub: string) => ({ format: 'iss_sub', iss: issuer.issuer, sub })

/** A token about a subject, with this `jti`. */
const tell = (jti: string, subject: string, claims: object = {}): Promise<string> =>
  transmitter.tell(eventTypes.accountDisabled, user(subject), {}, { jti, ...claims })

const settingsOf = (stream: EventStream, more: object = {}) =>
  withTransmitter(fixture, transmitter, polled(stream, more))

const start = (owner: Test, stream: EventStream, more: object = {}, settings: object = {}) =>
  startTestGateway(owner, { world, settings: { ...settingsOf(stream, more), ...settings } })

const countStored = async (subject: string): Promise<number> =>
  (await database.query('select from logouts where subject = $1', [subject])).rows.length

const readMetrics = async ({ admin }: { admin: string }): Promise<string> =>
  (await call(admin, { path: '/metrics' })).text

t.test('each replica polls, one question at a time, and acknowledges what is stored', async (t) => {
  const subjects = new Map<string, string>()
  const storedAtAck: number[] = []
  const stream = await startEventStream(t, async (id) => {
    storedAtAck.push(await countStored(subjects.get(id) ?? ''))
  })
  const replicas = await Promise.all([start(t, stream), start(t, stream)])
  for (let count = 0; count < 10; count += 1) {
    const [id, subject] = [`good-${count}`, await addSubject()]
    subjects.set(id, subject)
    const jwt = await issuer.sign({ sub: subject })
    for (const replica of replicas) t.equal(await statusOf(replica, jwt), 200)
    stream.offer({ [id]: await tell(id, subject) })
    for (const replica of replicas)
      await until(async () => (await statusOf(replica, jwt)) === 401, `the refusal after ${id}`)
  }
  await until(() => stream.waiting.size === 0, 'the acknowledgements')
  t.same(new Set(storedAtAck), new Set([1]), 'each was stored before')
  t.same(stream.errors, new Map())
  const [first] = stream.asked
  t.same(first?.question, { maxEvents: 64, returnImmediately: false })
  t.match(first?.headers, { 'content-type': 'application/json', accept: 'application/json' })
  t.ok(stream.open.most <= replicas.length, 'one poll of each replica is under way')
  t.match(await readMetrics(replicas[0]), /event_polls_total\{transmitter="idp",outcome="answered"[^}]*\} [1-9]/)
  t.match(await readMetrics(replicas[0]), /event_poll_timestamp_seconds\{transmitter="idp"[^}]*\} [1-9]/)
})

t.test('a bad event is refused by its id and blocks no other', async (t) => {
  const stream = await startEventStream(t)
  const impostor = await startTransmitter(t)
  const subjects = await Promise.all(Array.from({ length: 3 }, addSubject))
  const [one = '', two = '', three = ''] = subjects
  const sets = {
    one: await tell('one', one),
    audience: await tell('audience', two, { aud: 'another' }),
    audiences: await tell('audiences', two, { aud: [eventAudience, 'another'] }),
    issuer: await tell('issuer', two, { iss: 'https://another.example' }),
    type: await transmitter.sign({ jti: 'type', events: { x: {} }, sub_id: user(two) }, { typ: 'JWT' }),
    expiring: await tell('expiring', two, { exp: seconds() + 60 }),
    future: await tell('future', two, { iat: seconds() + 3_600 }),
    forged: await impostor.tell(eventTypes.accountDisabled, user(two), {}, { jti: 'forged', iss: transmitter.issuer }),
    other: await tell('another-id', two),
    number: 7,
    list: [await tell('list', two)],
    empty: '',
    long: 'x'.repeat(20_000),
    __proto__: null,
    two: await tell('two', three),
  }
  const gateway = await start(t, stream, { maxEvents: 4 })
  stream.offer(sets)
  stream.offer({ ['__proto__']: 'x', constructor: 'x' })
  await until(() => stream.waiting.size === 0, 'a reply to each')
  t.same(new Set(stream.acked), new Set(['one', 'two']))
  t.equal(stream.errors.get('audience'), 'invalid_audience')
  t.equal(stream.errors.get('audiences'), 'invalid_audience')
  t.equal(stream.errors.get('issuer'), 'invalid_issuer')
  t.equal(stream.errors.get('forged'), 'invalid_key')
  for (const id of ['type', 'expiring', 'future', 'other', 'number', 'list', 'empty', 'long', '__proto__'])
    t.equal(stream.errors.get(id), 'invalid_request', id)
  t.equal(stream.errors.size, 14)
  t.ok(stream.asked.every(({ question }) => question.maxEvents === 4))
  t.same(await Promise.all(subjects.map(countStored)), [1, 0, 1])
  t.equal(await statusOf(gateway, await issuer.sign({ sub: two })), 200)
})

t.test('a transmitter that gives more than it was asked for has the rest taken later', async (t) => {
  const stream = await startEventStream(t)
  const subjects = await Promise.all(Array.from({ length: 5 }, addSubject))
  const sets = Object.fromEntries(
    await Promise.all(subjects.map(async (subject) => [`more-${subject}`, await tell(`more-${subject}`, subject)])),
  )
  stream.offer(sets)
  stream.disturb((response) => {
    response.end(JSON.stringify({ sets: Object.fromEntries(stream.waiting) }))
  })
  await start(t, stream, { maxEvents: 2 })
  await until(() => stream.waiting.size === 0, 'the acknowledgements')
  t.ok(stream.asked.every(({ question: { ack = [] } }) => ack.length <= 2))
  t.equal(stream.acked.length, 5)
})

t.test('an outage of the database loses no event', async (t) => {
  const stream = await startEventStream(t)
  const url = new URL(world.databaseUrl)
  const proxy = await startTcpProxy(t, { port: Number(url.port) })
  url.port = String(proxy.port)
  const gateway = await start(
    t,
    stream,
    {},
    { database: { url: url.href, ...patience }, directory: { graceMs: 60_000 } },
  )
  const subjects = await Promise.all(Array.from({ length: 10 }, addSubject))
  const jwts = await Promise.all(subjects.map((sub) => issuer.sign({ sub })))
  for (const jwt of jwts) await until(async () => (await statusOf(gateway, jwt)) === 200, 'a first answer')
  proxy.refuse()
  proxy.cut()
  for (const subject of subjects) stream.offer({ [`down-${subject}`]: await tell(`down-${subject}`, subject) })
  for (const jwt of jwts) await until(async () => (await statusOf(gateway, jwt)) === 401, 'the refusal from memory')
  const polls = stream.asked.length
  await until(() => stream.asked.length > polls + 1, 'further polls')
  t.same(stream.acked, [], 'none is acknowledged before it is stored')
  t.same(stream.errors, new Map())
  t.same(new Set(await Promise.all(subjects.map(countStored))), new Set([0]))
  t.match(await readMetrics(gateway), /events_total\{transmitter="idp",event="unknown",outcome="unstored"[^}]*\} [1-9]/)
  t.notMatch(await readMetrics(gateway), /outcome="refused"/)
  proxy.accept()
  await until(() => stream.waiting.size === 0, 'the acknowledgements')
  t.same(new Set(await Promise.all(subjects.map(countStored))), new Set([1]))
})

t.test('without keys of its transmitter an event waits for them', async (t) => {
  const stream = await startEventStream(t)
  const own = await startTransmitter(t)
  own.fail(true)
  const subject = await addSubject()
  stream.offer({ keyless: await own.tell(eventTypes.accountDisabled, user(subject), {}, { jti: 'keyless' }) })
  await startTestGateway(t, { world, settings: withTransmitter(fixture, own, polled(stream)) })
  await until(() => stream.asked.length > 1, 'a second poll')
  t.same([stream.acked, stream.errors], [[], new Map()])
  own.fail(false)
  await until(() => stream.waiting.size === 0, 'the acknowledgement')
  t.equal(await countStored(subject), 1)
})

t.test('a transmitter that fails is polled again, and its answers are taken in form and bounds alone', async (t) => {
  const elsewhere = await startHttpUpstream(t, (_request, response) => void response.end('{"sets":{}}'))
  const stream = await startEventStream(t)
  const gateway = await start(t, stream, { returnImmediately: true })
  const [taken, harm] = [await addSubject(), await addSubject()]
  const token = await tell('harm', harm)
  const wrap = (text: string): string => `{"sets":{"harm":${JSON.stringify(token)}}${text}}`
  const failures: Readonly<Record<string, (response: ServerResponse) => void>> = {
    'a redirect': (response) => response.writeHead(307, { location: `${elsewhere.url}/poll` }).end(),
    'a redirect to itself': (response) => response.writeHead(302, { location: '/poll' }).end(wrap('')),
    'a failure': (response) => response.writeHead(500).end(wrap('')),
    'no content': (response) => response.writeHead(202).end(wrap('')),
    'over 1 MiB': (response) => response.end(wrap(`,"more":"${'x'.repeat(1024 * 1024)}"`)),
    'an endless answer': (response) => {
      response.write(wrap(`,"more":"`).slice(0, -1))
      const more = (): void => void (response.destroyed || response.write('x'.repeat(65_536), () => setImmediate(more)))
      more()
    },
    'a cut answer': (response) => {
      response.writeHead(200, { 'content-length': 9_999 }).write(wrap(''))
      setImmediate(() => response.destroy())
    },
    'no JSON': (response) => response.end(wrap('x')),
    'a reset': (response) => response.destroy(),
  }
  for (const [name, fail] of Object.entries(failures)) {
    const polls = stream.asked.length
    stream.disturb(fail)
    await until(() => stream.asked.length > polls, `${name}: a poll`)
    stream.disturb(undefined)
    const id = `after ${name}`
    stream.offer({ [id]: await tell(id, taken) })
    await until(() => stream.acked.includes(id), `${name}: the next event`)
  }
  t.equal(await countStored(harm), 0)
  t.same(elsewhere.ids(), [], 'the secret went nowhere else')
  const text = await readMetrics(gateway)
  t.match(text, /event_polls_total\{transmitter="idp",outcome="failed"[^}]*\} [1-9]/)
  t.notMatch(text, pollSecret)
})

t.test('an event that comes again is acknowledged again, and moves nothing', async (t) => {
  const stream = await startEventStream(t)
  stream.keepAcknowledged()
  const subject = await addSubject()
  stream.offer({ again: await tell('again', subject), bad: 'x' })
  const gateway = await start(t, stream)
  await until(() => stream.acked.length > 1, 'two acknowledgements')
  const read = async () => (await database.query('select * from logouts where subject = $1', [subject])).rows
  const rows = await read()
  const text = await readMetrics(gateway)
  t.match(text, /events_total\{transmitter="idp",event="account-disabled",outcome="stored"[^}]*\} 1\n/)
  t.match(text, /events_total\{transmitter="idp",event="unknown",outcome="refused"[^}]*\} 1\n/)
  const polls = stream.asked.length
  await gateway.drain({ delayMs: 0, timeoutMs: 0 })
  await start(t, stream)
  await until(() => stream.asked.length > polls + 1 && stream.acked.length > 2, 'polls after a restart')
  t.same(await read(), rows)
  t.equal(rows.length, 1)
})

t.test('one of several workers polls, and the log has no secret', async (t) => {
  const stream = await startEventStream(t)
  const settings = {
    ...settingsOf(stream, { timeoutMs: 1_000, returnImmediately: true }),
    workers: 2,
    log: { level: 'debug' },
  }
  const replica = await startReplica(t, { world, settings })
  const subject = await addSubject()
  const token = await tell('of-workers', subject)
  stream.offer({ 'of-workers': token, bad: `${token}x` })
  await until(() => stream.waiting.size === 0, 'the replies')
  for (const fail of [
    (response: ServerResponse) => response.writeHead(401).end(),
    (response: ServerResponse) => response.writeHead(307, { location: `/${pollSecret}` }).end(),
    (response: ServerResponse) => response.end(`{"sets":{"x":"${token}"}`),
    () => undefined,
  ]) {
    const polls = stream.asked.length
    stream.disturb(fail)
    await until(() => stream.asked.length > polls, 'a poll that fails')
    stream.disturb(undefined)
    await until(() => stream.asked.length > polls + 1, 'a poll after it')
  }
  await replica.stop()
  t.equal(stream.open.most, 1)
  t.match(replica.readLog(), /transmitter not polled/)
  for (const secret of [pollSecret, token, token.slice(-43), 'stream=1']) t.notMatch(replica.readLog(), secret)
})

t.test('a gateway that stops leaves its poll at once', async (t) => {
  const stream = await startEventStream(t)
  const gateway = await start(t, stream, { timeoutMs: 240_000 })
  stream.disturb(() => undefined)
  await until(() => stream.open.now === 1, 'an open poll')
  const polls = stream.asked.length
  await gateway.drain({ delayMs: 0, timeoutMs: 0 })
  await until(() => stream.open.now === 0, 'the end of the poll')
  t.equal(stream.asked.length, polls)
})

t.test('a poll that is not answered in time is given up', async (t) => {
  const stream = await startEventStream(t)
  stream.disturb(() => undefined)
  const gateway = await start(t, stream, { timeoutMs: 200, returnImmediately: true })
  await until(() => stream.asked.length > 1, 'a second poll')
  t.equal(stream.open.most, 1)
  t.equal(stream.asked[0]?.question.returnImmediately, true)
  t.match(await readMetrics(gateway), /event_polls_total\{transmitter="idp",outcome="failed"[^}]*\} [1-9]/)
})

t.test('a configuration that could not poll, or would poll in clear text, is refused', async (t) => {
  const stream = await startEventStream(t)
  const refuse = (more: object, message: RegExp) =>
    t.rejects(
      startTestGateway(t, { world, settings: withTransmitter(fixture, transmitter, { ...polled(stream), ...more }) }),
      { message },
    )
  const poll = { endpoint: stream.endpoint, bearer: pollSecret }
  await refuse({ push: { bearer: pollSecret } }, /needs one of push and poll/)
  await refuse({ poll: undefined }, /needs one of push and poll/)
  for (const endpoint of [
    'http://login.example/poll',
    'http://127.0.0.1.example/poll',
    'https://user:secret@login.example/poll',
    'https://login.example/poll#x',
    'https://',
  ])
    await refuse({ poll: { ...poll, endpoint } }, /is not https, or holds a user or fragment/)
  const verification = { ...stream.verification, endpoint: 'http://login.example/verify' }
  await refuse({ verification }, /is not https, or holds a user or fragment/)
  await refuse({ poll: { ...poll, bearer: 'two words' } }, /transmitters/)
  await refuse({ poll: { ...poll, maxEvents: 0 } }, /transmitters/)
  const signals = startTestGateway(t, {
    world,
    settings: { ...settingsOf(stream), issuers: settingsOf(stream).issuers.map(({ logout, ...rest }) => rest) },
  })
  await t.rejects(signals, { message: /no transmitter pushes/ })
})
