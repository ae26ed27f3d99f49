import { randomInt } from 'node:crypto'
import t from 'tap'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { type Call, call } from '../support/client.ts'
import { startRawUpstream, until } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { startReplica } from '../support/replicas.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { askAtOnce } from '../support/workers.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'
import { countStatements } from './statements.ts'

const world = await startTestWorld(t)
const { robot } = world.serviceAccounts
const { insert, writer } = await populate(t, world)

/** All queries and notifications of the gateway pass this proxy. */
const statements = countStatements()
const databaseUrl = new URL(world.databaseUrl)
const proxy = await startTcpProxy(t, { port: Number(databaseUrl.port), hearServer: statements.hearServer })
databaseUrl.port = String(proxy.port)

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
})
const names = ['platform', 'agents', 'files', 'graphql', 'data']
// A process of its own: one that is busy with the test's requests would ask for proofs too late.
const gateway = await startReplica(t, {
  world,
  settings: { database: { url: databaseUrl.href, ...world.patience } },
  upstreams: Object.fromEntries(names.map((name) => [name, { url: upstream.url }])),
})
await writer.query('update clusters set base_url = $1 where id = $2', [upstream.url, world.clusters.healthy])

const send = (request: Call) => call(gateway.public, request)

async function repeat(times: number, request: Call): Promise<ReadonlySet<number>> {
  const answers = new Set<number>()
  let left = times
  await askAtOnce(50, Math.ceil(times / 50), async (agent) => {
    if (left-- > 0) answers.add((await send({ ...request, agent })).status)
  })
  return answers
}

const isHearing = async (): Promise<boolean> =>
  (await (await fetch(`${gateway.admin}/metrics`)).text()).includes(
    'sallyport_invalidation_source_up{source="postgres"} 1',
  )
await until(isHearing, 'the connection for changes', 10_000)

const warm: readonly Call[] = [
  { path: '/public/x', headers: oauth(world.users.owner) },
  { path: '/users/me', headers: oauth(world.users.owner) },
  { path: '/datasets', headers: bearer(robot.apiKey) },
  { path: '/users/me', headers: bearer(robot.apiSecret) },
  { path: `/clusters/${world.clusters.healthy}/proxy/x`, headers: bearer(robot.apiKey) },
  { method: 'POST', path: `/agent/${world.agents.acme}/responses`, headers: bearer(robot.apiKey), body: '{}' },
]

/** The count of statements but for the writes of a token's uses, which come in the background, once a minute. */
const countNow = (): number => statements.count() - statements.count('UPDATE')

const none = (): number => 0

type Counted<Result> = Readonly<{ result: Result; count: number }>

/**
 * If the gateway or the machine stalls for a second, changes may go unheard. Then the gateway asks more, reconnects or
 * answers 503. Such a run proves nothing and is repeated, a few times also one that had more statements: the gateway may
 * have stalled alone.
 */
async function countStatementsOf<Result>(
  work: () => Promise<Result>,
  mostOf: (result: Result) => number,
): Promise<Counted<Result>> {
  let tooMany = 0
  for (let attempt = 0; attempt < 60; attempt += 1) {
    await until(isHearing, 'the connection for changes', 10_000)
    const startedMs = performance.now()
    const before = countNow()
    const result = await work()
    const count = countNow() - before
    if (statements.longestSilenceMs(startedMs) >= 600) continue
    if (count > mostOf(result)) tooMany += 1
    if (count <= mostOf(result) || tooMany === 10) return { result, count }
  }
  throw new Error('no proof passed for more than half a second, in each of sixty attempts')
}

t.test('warm requests make no query', async (t) => {
  for (const request of warm) t.equal((await send(request)).status, 200, request.path)
  const { result, count } = await countStatementsOf(async () => {
    const answers: ReadonlySet<number>[] = []
    for (const request of warm) answers.push(await repeat(10, request))
    return answers
  }, none)
  for (const [index, answers] of result.entries()) t.same(answers, new Set([200]), warm[index]?.path ?? '')
  t.equal(count, 0, 'statements of 60 requests')
})

t.test('a malformed token, or one with a wrong checksum, makes no query', async (t) => {
  const [row, secret = ''] = robot.apiKey.slice(4).split('.')
  const text = Buffer.from(secret, 'base64url').toString()
  const mistyped = Buffer.from((text.startsWith('a') ? 'b' : 'a') + text.slice(1)).toString('base64url')
  const wrong = ['oat_', 'oat_x.y', `oat_${row}.${mistyped}`, `oat_${row}.${secret}A`, `oat_OTk5OTk5OTk5OTk.${secret}`]
  const { count } = await countStatementsOf(async () => {
    for (const token of wrong)
      t.same(await repeat(50, { path: '/datasets', headers: bearer(token) }), new Set([401]), token)
  }, none)
  t.equal(count, 0)
})

t.test('1,000 requests with one cold token make two queries at most', async (t) => {
  const { result, count } = await countStatementsOf(
    async () => {
      const { secret, hash } = makeSecret(randomInt)
      const id = await insert(
        `auth_access_tokens (tokenable_id, type, hash, abilities) values ($1, 'auth_token', $2, '["*"]')`,
        [robot.id, hash],
      )
      return repeat(1_000, { path: '/public/x', headers: bearer(formatToken(id, secret)) })
    },
    () => 2,
  )
  t.same(result, new Set([200]))
  t.ok(count <= 2, `${count} statements`)
})

t.test('guesses at the secret of a token in use make no query', async (t) => {
  const id = Number(Buffer.from(robot.apiKey.slice(4).split('.')[0] ?? '', 'base64url').toString())
  t.equal((await send({ path: '/datasets', headers: bearer(robot.apiKey) })).status, 200)
  const { result, count } = await countStatementsOf(async () => {
    const answers = new Set<number>()
    for (let guess = 0; guess < 100; guess += 1) {
      const token = formatToken(id, makeSecret(randomInt).secret)
      answers.add((await send({ path: '/datasets', headers: bearer(token) })).status)
    }
    return answers
  }, none)
  t.same(result, new Set([401]))
  t.equal(count, 0)
})

t.test('an unknown token is looked up about once a second, however often it comes', async (t) => {
  const token = formatToken(2_000_000_000, makeSecret(randomInt).secret)
  const mostLooks = ({ seconds }: Readonly<{ seconds: number }>): number => 2 + 1.2 * seconds
  const { result, count } = await countStatementsOf(async () => {
    const startedMs = performance.now()
    const answers = await repeat(1_000, { path: '/datasets', headers: bearer(token) })
    return { answers, seconds: (performance.now() - startedMs) / 1_000 }
  }, mostLooks)
  t.same(result.answers, new Set([401]))
  t.ok(count <= mostLooks(result), `${count} statements`)
})

t.test('first logins that come at once share their lookups and one creation', async (t) => {
  let newcomers = 0
  const { result, count } = await countStatementsOf(
    async () => {
      const name = `shared-${newcomers++}`
      const headers = oauth({ jwt: await world.mint({ sub: name, email: `${name}@demo.example` }) })
      const inserted = statements.count('INSERT')
      const answers = await repeat(100, { path: '/public/x', headers })
      return { answers, inserts: statements.count('INSERT') - inserted }
    },
    () => 25,
  )
  t.same(result.answers, new Set([200]))
  t.equal(result.inserts, 2, 'the user and the identity, once')
  // A creation is begin, lock, look, two inserts, look, commit. Concurrent logins share a lookup at each step, and one
  // more follows once the inserts are heard of.
  t.ok(count <= 25, `${count} statements of 100 requests`)
})

t.test('a failed lookup is not remembered, and never reads as an unknown token', async (t) => {
  const { secret, hash } = makeSecret(randomInt)
  const id = await insert(
    `auth_access_tokens (tokenable_id, type, hash, abilities) values ($1, 'auth_token', $2, '["*"]')`,
    [robot.id, hash],
  )
  const request = { path: '/public/x', headers: bearer(formatToken(id, secret)) }
  proxy.refuse()
  proxy.cut()
  t.same(await repeat(100, request), new Set([503]))
  proxy.accept()
  await until(async () => (await send(request)).status === 200, 'the recovery', 15_000)
  t.same(await repeat(100, request), new Set([200]))
})
