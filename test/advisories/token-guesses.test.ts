import { randomInt } from 'node:crypto'
import { Agent, request } from 'node:http'
import pg from 'pg'
import t, { type Test } from 'tap'
import { createGuessLog } from '../../gateway/observe/log/guess-log.ts'
import type { LogFields } from '../../gateway/observe/log/log.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { type Answer, call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startReplica } from '../support/replicas.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// Every client can make tokens with a right checksum. Without the lane each costs a query: 2,000 a second made the
// first logins of others nine times slower.

const world = await startTestWorld(t)
const { robot } = world.serviceAccounts
const { admin } = world.users
const database = new pg.Pool({ connectionString: world.databaseUrl, max: 4 })
t.teardown(() => database.end())

/** On a busy machine what waits must not be taken for an outage. */
const patience = { connectTimeoutMs: 20_000, queryTimeoutMs: 20_000 }
const settings = { trustedProxies: ['127.0.0.1'], database: { url: world.databaseUrl, poolSize: 6, ...patience } }
const start = (t: Test, more: object = {}) => startTestGateway(t, { world, settings: { ...settings, ...more } })

let guesses = 0

/** A token that does not exist; every other one has the id of one that does. */
function guess(): string {
  guesses += 1
  return formatToken(guesses % 2 === 0 ? 1 + (guesses % 6) : 1_000_000 + guesses, makeSecret(randomInt).secret)
}

const from = (address: string, token: string): Record<string, string> => ({
  ...bearer(token),
  'x-forwarded-for': address,
})

const agent = new Agent({ keepAlive: true, maxSockets: 200 })
t.teardown(() => agent.destroy())

/** A status and no more, on connections that are kept. */
const send = (origin: string, headers: Record<string, string>): Promise<number> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(origin)
    const sent = request({ hostname, port, agent, path: '/users/me', headers }, (answer) => {
      answer.resume()
      answer.on('end', () => resolve(answer.statusCode ?? 0))
    })
    sent.on('error', reject)
    sent.end()
  })

async function readMetric(admin: string, sample: string): Promise<number> {
  const text = await (await fetch(`${admin}/metrics`)).text()
  const line = text.split('\n').find((line) => line.startsWith(`${sample} `))
  return Number(line?.split(' ').at(-1) ?? 0)
}

const countOf = (statement: string) => `sallyport_database_query_duration_seconds_count{statement="${statement}"}`
const outcome = (name: string) => `sallyport_unknown_tokens_total{outcome="${name}"}`

async function createToken(): Promise<string> {
  const { secret, hash } = makeSecret(randomInt)
  const { rows } = await database.query<{ id: number }>(
    `insert into auth_access_tokens (tokenable_id, type, hash, abilities) values ($1, 'auth_token', $2, '["*"]') returning id`,
    [robot.id, hash],
  )
  return formatToken(rows[0]?.id ?? 0, secret)
}

t.test('a flood of guesses costs a few small questions, and reads no user', async (t) => {
  const gateway = await start(t)
  t.equal(await send(gateway.public, from('192.0.2.1', guess())), 401)
  const before = await readMetric(gateway.admin, countOf('find-token'))
  const statuses = await Promise.all(
    Array.from({ length: 3_000 }, () => send(gateway.public, from('192.0.2.1', guess()))),
  )
  t.ok(statuses.every((status) => status === 401))
  // A whole token is asked for where the machine has stood still for a second.
  t.ok((await readMetric(gateway.admin, countOf('find-token'))) < before + 20)
  const questions = await readMetric(gateway.admin, countOf('find-token-hashes'))
  t.ok(questions < 3_000 / 4, `${questions} questions for 3,000 guesses`)
  t.equal(await readMetric(gateway.admin, outcome('refused')), 3_001)
})

t.test(
  'a guess at a token that exists costs the questions of a guess at none, so that no time tells them apart',
  async (t) => {
    const gateway = await start(t)
    const read = () =>
      Promise.all(['find-token', 'find-token-hashes'].map((name) => readMetric(gateway.admin, countOf(name))))
    const costOf = async (token: string): Promise<string> => {
      const before = await read()
      const status = await send(gateway.public, from('192.0.2.1', token))
      const after = await read()
      return [status, ...after.map((count, index) => count - (before[index] ?? 0))].join()
    }
    const pair = async (token: string): Promise<string> => `${await costOf(token)}, and again ${await costOf(token)}`
    let costs: readonly string[] = []
    const areAlike = async (): Promise<boolean> => {
      const [existing, secret] = [await createToken(), makeSecret(randomInt).secret]
      const absent = formatToken(1_000_000 + ++guesses, secret)
      costs = [await pair(absent), await pair(`${existing.split('.')[0]}.${absent.split('.')[1]}`)]
      return costs[0] === costs[1]
    }
    // A machine that stood still for a second asks anew.
    await until(areAlike, 'equal costs').catch((error) => t.fail(`${error.message}: ${costs.join(' against ')}`))
    t.match(costs[0], /^401,/)
  },
)

t.test('while guesses wait for the database they hold a third of its connections, and others go on', async (t) => {
  const gateway = await start(t)
  const locking = await database.connect()
  t.teardown(() => locking.release(true))
  await locking.query('begin')
  await locking.query('lock table auth_access_tokens in access exclusive mode')
  const flood = Array.from({ length: 150 }, () => send(gateway.public, from('192.0.2.1', guess())))
  const countBlocked = async (): Promise<number> => {
    const { rows } = await database.query(
      "select count(*)::int as blocked from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'sallyport' and datname = current_database() and query not ilike '%explain%'",
    )
    return rows[0].blocked
  }
  await until(async () => (await countBlocked()) === 2, 'the lane is full')
  await until(async () => (await readMetric(gateway.admin, 'sallyport_unknown_tokens_waiting')) > 0, 'the others wait')
  for (let login = 0; login < 10; login++) {
    const jwt = await world.mint({ sub: `aside-${login}`, email: `aside-${login}@x.example` })
    t.equal((await call(gateway.public, { path: '/users/me', headers: oauth({ jwt }) })).status, 200, 'a first login')
  }
  t.equal(await countBlocked(), 2)
  await locking.query('rollback')
  t.ok((await Promise.all(flood)).every((status) => status === 401))
})

t.test('a service account’s first request from another address is served amid a flood', async (t) => {
  const gateway = await start(t)
  const stopping = new AbortController()
  const attack = async (): Promise<void> => {
    while (!stopping.signal.aborted) await send(gateway.public, from('192.0.2.1', guess()))
  }
  const attackers = Array.from({ length: 60 }, attack)
  for (let round = 0; round < 20; round++)
    t.equal(await send(gateway.public, from('198.51.100.7', await createToken())), 200)
  stopping.abort()
  await Promise.all(attackers)
})

t.test('a token that was found before never waits among guesses', async (t) => {
  const gateway = await start(t)
  const token = await createToken()
  t.equal(await send(gateway.public, from('198.51.100.7', token)), 200)
  const asked = await readMetric(gateway.admin, countOf('find-token-hashes'))
  const before = await readMetric(gateway.admin, countOf('find-token'))
  const isAskedAgain = async (): Promise<boolean> => {
    await database.query(`select pg_notify('sallyport_changes', '{"kind":"everything"}')`)
    t.equal(await send(gateway.public, from('203.0.113.9', token)), 200)
    return (await readMetric(gateway.admin, countOf('find-token'))) > before
  }
  await until(isAskedAgain, 'another question')
  t.equal(await readMetric(gateway.admin, countOf('find-token-hashes')), asked)
})

t.test('no limit by address stands in the way unless it is configured', async (t) => {
  const gateway = await start(t)
  const statuses = await Promise.all(
    Array.from({ length: 300 }, () => send(gateway.public, from('192.0.2.1', guess()))),
  )
  t.ok(statuses.every((status) => status === 401))
})

t.test(
  'with a limit an address that guesses is 429 with Retry-After; others, and tokens in use, are not',
  async (t) => {
    const authentication = { unknownTokens: { perSecond: 0.01, burst: 3 } }
    const gateway = await start(t, { authentication })
    const ask = (address: string, token: string): Promise<Answer> =>
      call(gateway.public, { path: '/users/me', headers: from(address, token) })
    const known = await createToken()
    for (let round = 0; round < 5; round++) t.equal((await ask('2001:db8::1', await createToken())).status, 200)
    t.equal((await ask('2001:db8::1', known)).status, 200, 'tokens that exist are given back')
    for (let round = 0; round < 3; round++) t.equal((await ask('2001:db8::1', guess())).status, 401)
    for (const address of ['2001:db8::1', '2001:db8::2', '2001:db8:0:0:ffff::1']) {
      const answer = await ask(address, guess())
      t.match(answer.json(), { error: { status: 429, code: 'too_many_attempts' } }, address)
      t.match(answer.headers['retry-after'], /^[1-9]\d*$/)
    }
    t.equal((await ask('2001:db8::1', known)).status, 200, 'a token in use')
    t.equal((await ask('2001:db8::1', 'oat_typo')).status, 401, 'what cannot be a token asks for nothing')
    t.equal((await ask('2001:db8:0:1::1', guess())).status, 401, 'another network')
    t.equal(await readMetric(gateway.admin, outcome('throttled')), 3)
  },
)

t.test('an address that guesses has one line of the log a minute', async (t) => {
  const replica = await startReplica(t, { world, settings: { ...settings, log: { level: 'warn' } } })
  for (let round = 0; round < 50; round++) await send(replica.public, from('192.0.2.9', guess()))
  await send(replica.public, from('192.0.2.10', guess()))
  const findLines = () =>
    replica
      .readLog()
      .split('\n')
      .filter((line) => line.includes('unknown tokens tried'))
      .map((line) => JSON.parse(line))
  await until(() => findLines().length === 2, 'the lines')
  t.match(findLines(), [
    { clientAddress: '192.0.2.9', unknownTokens: 1 },
    { clientAddress: '192.0.2.10', unknownTokens: 1 },
  ])
})

t.test('a flood that goes on for minutes has one line an address and minute, and each guess is counted', async (t) => {
  let nowMs = 0
  const lines: LogFields[] = []
  const logGuess = createGuessLog({ warn: (fields) => void lines.push(fields) }, () => nowMs)
  const told = (): LogFields[] => lines.splice(0)
  for (let count = 0; count < 5; count++) logGuess('192.0.2.1')
  logGuess('192.0.2.2')
  t.same(
    told(),
    ['192.0.2.1', '192.0.2.2'].map((clientAddress) => ({ clientAddress, unknownTokens: 1 })),
  )
  nowMs += 60_000
  for (let count = 0; count < 5; count++) for (const address of ['192.0.2.1', '192.0.2.3']) logGuess(address)
  t.same(told(), [
    { clientAddress: '192.0.2.1', unknownTokens: 4 },
    { clientAddress: '192.0.2.3', unknownTokens: 1 },
  ])
  nowMs += 60_000
  logGuess('192.0.2.2')
  t.same(told(), [
    { clientAddress: '192.0.2.1', unknownTokens: 5 },
    { clientAddress: '192.0.2.3', unknownTokens: 4 },
    { clientAddress: '192.0.2.2', unknownTokens: 1 },
  ])
  for (let address = 0; address < 5_000; address++) logGuess(`2001:db8:${address}::`)
  t.ok(told().length < 1_000, 'more addresses than that share a line')
  nowMs += 60_000
  logGuess('192.0.2.1')
  t.same(told(), [
    { clientAddress: 'others', unknownTokens: 4_003 },
    { clientAddress: '192.0.2.1', unknownTokens: 1 },
  ])
})

t.test('while the database cannot be asked an unknown token is 503, and never 401', async (t) => {
  const gateway = await start(t, { database: { url: 'postgres://nobody@127.0.0.1:1/nowhere', poolSize: 6 } })
  const statuses = await Promise.all(Array.from({ length: 50 }, () => send(gateway.public, from('192.0.2.1', guess()))))
  t.ok(statuses.every((status) => status === 503))
  t.equal((await call(gateway.public, { path: '/users/me', headers: oauth(admin) })).status, 503)
})
