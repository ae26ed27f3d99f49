import { randomInt } from 'node:crypto'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { call } from '../support/client.ts'
import { runCommand } from '../support/command-line.ts'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { parseEvents } from '../support/event-streams.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { until } from '../support/gateway.ts'
import { type Account, populate } from '../support/population.ts'
import { testRedisServer } from '../support/redis.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { type Replica, startReplica } from '../support/replicas.ts'
import { type ReadAnswer, readAnswer, readPermitted } from '../support/streams.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { acme, globex } = world.organizations
const { writer, insert, assign, addAccount } = await populate(t, world)
const upstream = await startEndlessUpstream(t, { everyMs: 500, burst: 1 })

/** The bound is 1 s; the rest is for a busy machine. */
const endsWithinMs = 2_000

const readMetrics = async ({ admin }: Replica): Promise<string> => (await call(admin, { path: '/metrics' })).text

const isUp = async (replica: Replica, source: string): Promise<boolean> =>
  (await readMetrics(replica)).includes(`sallyport_invalidation_source_up{source="${source}"} 1`)

/** Two replicas of two workers each, with a Redis that hears every writer, and a proxy of PostgreSQL's notifications. */
async function startPair(t: Test) {
  const redis = await startRedisServer(t)
  const listenUrl = new URL(world.databaseUrl)
  const notifications = await startTcpProxy(t, { port: Number(listenUrl.port) })
  listenUrl.port = String(notifications.port)
  const settings = {
    workers: 2,
    redis: { url: redis.url, allWritersPublish: true },
    // On a busy machine a lookup takes a while.
    database: { url: world.databaseUrl, listenUrl: listenUrl.href, queryTimeoutMs: 15_000, connectTimeoutMs: 15_000 },
  }
  const url = upstream.url
  const start = () => startReplica(t, { world, upstreams: { agents: { url }, platform: { url } }, settings })
  const replicas = await Promise.all([start(), start()])
  const untilSources = async (source: string, isThere: boolean): Promise<void> => {
    for (const replica of replicas)
      await until(async () => (await isUp(replica, source)) === isThere, `${source}: ${isThere}`)
  }
  await untilSources('redis', true)
  await untilSources('postgres', true)
  return { redis, notifications, replicas, untilSources }
}

let opened = 0

/** Opens a stream, whose request id begins with the name. */
async function open(name: string, { public: origin }: Replica, headers: Record<string, string>, agent: number) {
  opened += 1
  const id = { 'x-request-id': `${name}-${opened}` }
  return readPermitted(() => readAnswer(`${origin}/agent/${agent}/responses`, { ...headers, ...id }))
}

/** The codes of the failures in which streams end. */
async function readEnds(t: Test, answers: readonly ReadAnswer[], withinMs: number): Promise<Set<string>> {
  const passedMs = startFairClock(t)
  const ends = await Promise.all(answers.map((answer) => answer.whole()))
  t.ok(passedMs() < withinMs, `${passedMs()} ms`)
  const failures = ends.map((bytes) => JSON.parse(parseEvents(bytes).at(-1)?.data ?? '{}').response?.metadata)
  return new Set(failures.map((metadata) => metadata?.x_service_error_code))
}

/** The workers that ended streams of this name. */
const workersOf = ({ readLog }: Replica, name: string): ReadonlySet<number> =>
  new Set(
    readLog()
      .split('\n')
      .filter((line) => line.includes(`"${name}-`))
      .map((line): number => JSON.parse(line).worker),
  )

/** Revokes tokens until one was in use at both workers of both replicas. */
async function expectEnds(t: Test, name: string, replicas: readonly Replica[], revoke: (account: Account) => unknown) {
  const isEverywhere = () => replicas.every((replica) => workersOf(replica, name).size === 2)
  for (let round = 0; round < 20 && !isEverywhere(); round += 1) {
    const account = await addAccount(`${name}-${round}`)
    const ofReplica = (replica: Replica) =>
      Promise.all(Array.from({ length: 6 }, () => open(name, replica, account.headers, world.agents.acme)))
    const answers = (await Promise.all(replicas.map(ofReplica))).flat()
    await revoke(account)
    t.same([...(await readEnds(t, answers, endsWithinMs))], ['access_revoked'])
    await until(() => replicas.every((replica) => workersOf(replica, name).size > 0), 'the log')
  }
  t.ok(isEverywhere(), 'each worker ended one')
}

const revokeBySql = ({ tokenId }: Account) => writer.query('delete from auth_access_tokens where id = $1', [tokenId])

testRedisServer(t, 'a revocation ends streams at each worker of each replica, whichever source tells it', async (t) => {
  const { redis, notifications, replicas, untilSources } = await startPair(t)
  const [first] = replicas
  const kept = await addAccount('kept')
  const others = await Promise.all(replicas.map((replica) => open('kept', replica, kept.headers, world.agents.acme)))
  const revokeByApi = async ({ id, tokenId }: Account): Promise<void> => {
    const path = `/organizations/${acme.id}/users/${id}/tokens/${tokenId}`
    const { apiSecret } = world.serviceAccounts.robotAdmin
    const { status } = await call(first.public, { method: 'DELETE', path, headers: bearer(apiSecret) })
    if (status !== 200) throw new Error(`the revocation was answered with ${status}`)
  }
  await expectEnds(t, 'both', replicas, revokeBySql)
  notifications.refuse()
  notifications.cut()
  await untilSources('postgres', false)
  await expectEnds(t, 'redis', replicas, revokeByApi)
  const command = async (...words: readonly string[]): Promise<void> => {
    const { code, stderr } = await runCommand([...words, '--config', join(dirname(first.logFile), 'gateway.yaml')])
    t.equal(code, 0, stderr)
  }
  await expectEnds(t, 'command', replicas, ({ tokenId }) => command('tokens', 'revoke', String(tokenId)))
  const end = ({ tokenId }: Account) => command('sessions', 'end', '--token', String(tokenId))
  await expectEnds(t, 'order', replicas, end)
  await redis.kill()
  const untold = await runCommand([
    ...['sessions', 'end', '--token', '1', '--config', join(dirname(first.logFile), 'gateway.yaml')],
  ])
  t.equal(untold.code, 1, 'a change that replicas may not hear of is told')
  t.match(untold.stderr, /the change is stored, but Redis took no message of it/)
  await untilSources('redis', false)
  await expectEnds(t, 'neither', replicas, revokeBySql)
  notifications.accept()
  await untilSources('postgres', true)
  await expectEnds(t, 'postgres', replicas, revokeBySql)
  for (const other of others) {
    t.notOk(other.hasEnded(), 'the stream of another goes on')
    other.leave()
  }
})

/** Members with a token each, in one statement a table. */
async function addMembers(organization: number, count: number): Promise<readonly Record<string, string>[]> {
  const secrets = Array.from({ length: count }, () => makeSecret(randomInt))
  const { rows } = await writer.query<{ id: number; hash: string }>(
    `with added as (
      insert into users (email, user_type)
        select 'crowd-' || n || '@demo.example', 'client-managed' from generate_series(1, $1::int) n
      returning id
    ), joined as (
      insert into role_assignments (user_id, organization_id, role) select id, $2, 'org-member' from added
    ), numbered as (select id, row_number() over (order by id) n from added)
    insert into auth_access_tokens (tokenable_id, type, hash, abilities)
      select id, 'auth_token', ($3::text[])[n], '["*"]' from numbered
    returning id, hash`,
    [count, organization, secrets.map(({ hash }) => hash)],
  )
  const secretOf = new Map(secrets.map(({ hash, secret }) => [hash, secret]))
  return rows.map(({ id, hash }) => bearer(formatToken(id, secretOf.get(hash) ?? '')))
}

testRedisServer(t, 'a thousand members lose an organization at once, and strangers lose nothing', async (t) => {
  const { replicas } = await startPair(t)
  const organization = await insert("organizations (name, slug, account_type) values ('Crowd', 'crowd', 'team')")
  const agent = await insert('agents (organization_id, name) values ($1, $2)', [organization, 'crowd'])
  const stranger = await addAccount('stranger')
  await assign(stranger.id, globex.id, 'org-member')
  const strangers = await Promise.all(
    [...replicas, ...replicas].map((replica) => open('stranger', replica, stranger.headers, world.agents.acme)),
  )
  const members = await addMembers(organization, 1_000)
  const answers: ReadAnswer[] = []
  for (let at = 0; at < members.length; at += 20)
    answers.push(
      ...(await Promise.all(
        members.slice(at, at + 20).map((headers, index) => {
          const scoped = { ...headers, 'x-organization-id': String(organization) }
          return open('crowd', replicas[index % 2] ?? replicas[0], scoped, agent)
        }),
      )),
    )
  const statuses = new Map<number, number>()
  let isAsking = true
  const asking = Promise.all(
    [stranger.headers, oauth(world.users.member)].map(async (headers) => {
      while (isAsking) {
        for (const { public: origin } of replicas) {
          const { status } = await call(origin, { path: '/users/me', headers })
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
        }
        await sleep(5)
      }
    }),
  )
  await writer.query('delete from role_assignments where organization_id = $1', [organization])
  const codes = await readEnds(t, answers, 5_000)
  // A machine that cannot read a thousand callers within a second ends the rest unread.
  codes.delete('access_unverified')
  t.same([...codes], ['access_revoked'])
  isAsking = false
  await asking
  t.same([...statuses.keys()], [200], 'requests of strangers go on')
  const lengths = strangers.map((answer) => answer.text().length)
  await until(() => strangers.every((answer, at) => answer.text().length > (lengths[at] ?? 0)), 'further events')
  t.notOk(
    strangers.some((answer) => answer.hasEnded()),
    'their streams go on',
  )
  for (const answer of strangers) answer.leave()
})
