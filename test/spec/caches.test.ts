import { randomInt } from 'node:crypto'
import t from 'tap'
import { formatToken, makeSecret } from '../../gateway/answer/token-secret.ts'
import { type Call, call } from '../support/client.ts'
import { startRawUpstream, until } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { startReplica } from '../support/replicas.ts'
import { countStatements } from '../support/statements.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { robot } = world.serviceAccounts
const { insert, writer } = await populate(t, world)

/** Everything that the gateway asks of its database goes this way; what it hears of changes too. */
const statements = countStatements()
const databaseUrl = new URL(world.databaseUrl)
const proxy = await startTcpProxy(t, { port: Number(databaseUrl.port), hearServer: statements.hearServer })
databaseUrl.port = String(proxy.port)

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
})
const names = ['platform', 'agents', 'files', 'graphql', 'data']
// In a process of its own: one that is busy with our requests could not ask for proofs in time.
const gateway = await startReplica(t, {
  world,
  settings: { database: { url: databaseUrl.href } },
  upstreams: Object.fromEntries(names.map((name) => [name, { url: upstream.url }])),
})
await writer.query('update clusters set base_url = $1 where id = $2', [upstream.url, world.clusters.healthy])

const send = (request: Call) => call(gateway.public, request)

/** Many at once, again and again; what they were answered. */
async function repeat(times: number, request: Call): Promise<ReadonlySet<number>> {
  const answers = new Set<number>()
  let left = times
  const work = async (): Promise<void> => {
    while (left-- > 0) answers.add((await send(request)).status)
  }
  await Promise.all(Array.from({ length: 50 }, work))
  return answers
}

const isHearing = async (): Promise<boolean> =>
  (await (await fetch(`${gateway.admin}/metrics`)).text()).includes('sallyport_change_source_up{source="postgres"} 1')
await until(isHearing, 'the connection for changes', 10_000)

const warm: readonly Call[] = [
  { path: '/public/x', headers: oauth(world.users.owner) },
  { path: '/users/me', headers: oauth(world.users.owner) },
  { path: '/datasets', headers: bearer(robot.apiKey) },
  { path: '/users/me', headers: bearer(robot.apiSecret) },
  { path: `/clusters/${world.clusters.healthy}/proxy/x`, headers: bearer(robot.apiKey) },
  { method: 'POST', path: `/agent/${world.agents.acme}/responses`, headers: bearer(robot.apiKey), body: '{}' },
]

t.test('warm requests make no query', async (t) => {
  for (const request of warm) t.equal((await send(request)).status, 200, request.path)
  // The first uses of these tokens are written within five seconds, off everybody's way.
  await until(
    async () => (await writer.query('select from auth_access_tokens where last_used_at is not null')).rowCount === 2,
    'the uses of the tokens',
    10_000,
  )
  const before = statements.count()
  for (const request of warm) t.same(await repeat(170, request), new Set([200]), request.path)
  t.equal(statements.count() - before, 0, 'statements of 1,020 requests')
})

t.test('a malformed token, or one with a wrong checksum, makes no query', async (t) => {
  const [row, secret = ''] = robot.apiKey.slice(4).split('.')
  const text = Buffer.from(secret, 'base64url').toString()
  const mistyped = Buffer.from((text.startsWith('a') ? 'b' : 'a') + text.slice(1)).toString('base64url')
  const wrong = ['oat_', 'oat_x.y', `oat_${row}.${mistyped}`, `oat_${row}.${secret}A`, `oat_OTk5OTk5OTk5OTk.${secret}`]
  const before = statements.count()
  for (const token of wrong)
    t.same(await repeat(50, { path: '/datasets', headers: bearer(token) }), new Set([401]), token)
  t.equal(statements.count() - before, 0)
})

t.test('5,000 requests with one cold token make at most two queries', async (t) => {
  const { secret, hash } = makeSecret(randomInt)
  const id = await insert(
    `auth_access_tokens (tokenable_id, type, hash, abilities, last_used_at)
     values ($1, 'auth_token', $2, '["*"]', now())`,
    [robot.id, hash],
  )
  const before = statements.count()
  const startedMs = performance.now()
  t.same(await repeat(5_000, { path: '/public/x', headers: bearer(formatToken(id, secret)) }), new Set([200]))
  // One look, and the write of its use: one on a machine that is quick enough, else one in five seconds.
  const writes = Math.ceil((performance.now() - startedMs) / 5_000)
  t.ok(statements.count() - before <= 1 + writes, `${statements.count() - before} statements`)
})

t.test('guesses at the secret of a token in use make no query', async (t) => {
  const id = Number(Buffer.from(robot.apiKey.slice(4).split('.')[0] ?? '', 'base64url').toString())
  t.equal((await send({ path: '/datasets', headers: bearer(robot.apiKey) })).status, 200)
  const before = statements.count()
  for (let guess = 0; guess < 100; guess += 1) {
    const token = formatToken(id, makeSecret(randomInt).secret)
    t.equal((await send({ path: '/datasets', headers: bearer(token) })).status, 401)
  }
  t.equal(statements.count() - before, 0)
})

t.test('an unknown token is looked up about once a second, however often it comes', async (t) => {
  const token = formatToken(2_000_000_000, makeSecret(randomInt).secret)
  const startedMs = performance.now()
  const before = statements.count()
  t.same(await repeat(1_000, { path: '/datasets', headers: bearer(token) }), new Set([401]))
  const seconds = (performance.now() - startedMs) / 1_000
  t.ok(statements.count() - before <= 2 + 1.2 * seconds, `${statements.count() - before} statements`)
})

t.test('first logins that come at once share one look and one creation', async (t) => {
  const headers = oauth({ jwt: await world.mint({ sub: 'shared-newcomer', email: 'shared@demo.example' }) })
  const before = statements.count()
  t.same(await repeat(100, { path: '/public/x', headers }), new Set([200]))
  // One look; begin, lock, look, two inserts, look, commit; and a look again once the insert was heard of.
  t.ok(statements.count() - before <= 12, `${statements.count() - before} statements`)
})

t.test('a failed look is not remembered, and never reads as an unknown token', async (t) => {
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
  await until(async () => (await send(request)).status === 200, 'the recovery')
  t.same(await repeat(100, request), new Set([200]))
})
