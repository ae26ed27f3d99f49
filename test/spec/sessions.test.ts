import { once } from 'node:events'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { makeAuditFolder, readAudit } from '../support/audit.ts'
import { call, type JsonValue } from '../support/client.ts'
import { type Ended, runCommand } from '../support/command-line.ts'
import { startEndlessUpstream } from '../support/endless-upstream.ts'
import { parseEvents } from '../support/event-streams.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { until } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { type Replica, startReplica } from '../support/replicas.ts'
import { readAnswer, readPermitted } from '../support/streams.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { writer, addAccount } = await populate(t, world)
const upstream = await startEndlessUpstream(t, { everyMs: 200, burst: 1 })
const agent = world.agents.acme
const auditFile = join(makeAuditFolder(t), 'audit.jsonl')

/** Two replicas of two workers each; the notifications of PostgreSQL come by a proxy. */
const listenUrl = new URL(world.databaseUrl)
const notifications = await startTcpProxy(t, { port: Number(listenUrl.port) })
listenUrl.port = String(notifications.port)
const upstreams = { agents: { url: upstream.url }, platform: { url: upstream.url } }
const settings = {
  workers: 2,
  audit: { sink: auditFile },
  // On a busy machine a lookup takes a while.
  database: { url: world.databaseUrl, listenUrl: listenUrl.href, queryTimeoutMs: 15_000, connectTimeoutMs: 15_000 },
}
const start = () => startReplica(t, { world, upstreams, settings })
const [first, second] = await Promise.all([start(), start()])

const readMetrics = async ({ admin }: Replica): Promise<string> => (await call(admin, { path: '/metrics' })).text
for (const replica of [first, second])
  await until(
    async () => (await readMetrics(replica)).includes('sallyport_invalidation_source_up{source="postgres"} 1'),
    'the notifications',
  )

/** The bound is 1 s; the rest is for a busy machine. */
const endsWithinMs = 2_000

const sessions = (...words: readonly string[]): Promise<Ended> =>
  runCommand(['sessions', ...words, '--config', join(dirname(first.logFile), 'gateway.yaml')])

const list = async (query = ''): Promise<JsonValue> =>
  JSON.parse((await call(first.admin, { path: `/console/exchanges.json?${query}` })).text)

let opened = 0

async function openStream({ public: origin }: Replica, headers: Record<string, string>) {
  opened += 1
  const id = { 'x-request-id': `session-${opened}` }
  const answer = await readPermitted(() => readAnswer(`${origin}/agent/${agent}/responses`, { ...headers, ...id }))
  await until(() => answer.text().length > 200, 'events')
  return answer
}

async function openSocket(t: Test, { public: origin }: Replica, headers: Record<string, string>): Promise<WebSocket> {
  const socket = new WebSocket(`${origin.replace('http', 'ws')}/socket?password=hunter2`, { headers })
  t.teardown(() => socket.terminate())
  await once(socket, 'message')
  return socket
}

t.test('a list names who has what open, since when and with how many bytes, and no secret', async (t) => {
  const account = await addAccount('listed')
  const other = await addAccount('unlisted')
  const stream = await openStream(first, account.headers)
  const socket = await openSocket(t, first, account.headers)
  const unlisted = await openStream(first, other.headers)
  const { total, exchanges, next } = await list(`user=${account.id}`)
  t.same([total, exchanges.length, next], [2, 2, null])
  const common = { userId: account.id, organizationId: 1, credential: 'api-token', tokenId: account.tokenId }
  const [one, two] = exchanges
  t.match(one, {
    ...common,
    kind: 'stream',
    method: 'POST',
    path: `/agent/${agent}/responses`,
    route: 'agents.responses',
    upstream: 'agents',
    clientAddress: '127.0.0.1',
    requestId: 'session-1',
  })
  t.match(two, { ...common, kind: 'websocket', route: 'socket' })
  t.ok(one.sentBytes > 200 && two.sentBytes > 0, 'bytes were counted')
  t.ok(Math.abs(Date.now() - Date.parse(one.openedAt)) < 60_000)
  t.same((await list(`token=${account.tokenId}&route=socket`)).total, 1)
  t.same((await list('request=session-2')).total, 1)
  t.same((await list('organization=2')).total, 0)
  const text = await sessions('list', '--admin', first.admin)
  t.match(text.stdout, /^OPEN SINCE +KIND +ROUTE .*\n.* stream +agents\.responses +\d+ +1 +token \d+ +127\.0\.0\.1/)
  const { text: page } = await call(first.admin, { path: '/' })
  const [, table = ''] = /id="exchanges-table".*?<tbody>(.*?)<\/tbody>/s.exec(page) ?? []
  t.equal(table.split('</tr>').length - 1, 3)
  t.match(table, 'session-1')
  for (const output of [JSON.stringify(exchanges), text.stdout, table]) {
    t.notMatch(output, 'hunter2')
    t.notMatch(output, account.headers.authorization?.slice(-20) ?? '?')
  }
  for (const answer of [stream, unlisted]) answer.leave()
  socket.terminate()
  await until(async () => (await list()).total === 0, 'an empty list')
})

t.test('pages follow one another over all workers, oldest first', async (t) => {
  const account = await addAccount('paged')
  const answers = []
  for (let count = 0; count < 7; count++) answers.push(await openStream(first, account.headers))
  const seen: string[] = []
  let after = ''
  for (;;) {
    const { total, exchanges, next } = await list(`limit=3&after=${after}`)
    t.equal(total, 7)
    seen.push(...exchanges.map(({ requestId }: JsonValue) => requestId))
    if (next === null) break
    after = next
  }
  t.same(
    seen,
    answers.map((_, index) => `session-${opened - 6 + index}`),
  )
  const { stdout, stderr } = await sessions('list', '--admin', first.admin, '--limit', '3', '--after', after)
  t.match(stdout.split('\n'), { length: 3 })
  t.equal(stderr, '')
  const page = await sessions('list', '--admin', first.admin, '--limit', '3', '--user', String(account.id))
  t.match(page.stderr, /^7 exchanges are open; --after \d+\.\d+\.\d+ lists those that opened later\n$/)
  for (const answer of answers) answer.leave()
})

t.test('an order ends what is open on every replica, leaves all else, and is audited', async (t) => {
  const [gone, kept] = [await addAccount('ordered'), await addAccount('not-ordered')]
  const replicas = [first, second]
  const ending = await Promise.all(replicas.map((replica) => openStream(replica, gone.headers)))
  const staying = await Promise.all(replicas.map((replica) => openStream(replica, kept.headers)))
  const socket = await openSocket(t, second, gone.headers)
  const closed = once(socket, 'close')
  const { code, stdout } = await sessions('end', '--user', String(gone.id), '--json')
  const passedMs = startFairClock(t)
  t.equal(code, 0)
  const order = JSON.parse(stdout)
  t.match(order, { userId: gone.id, organizationId: null, route: null })
  for (const answer of ending) {
    const last = parseEvents(await answer.whole()).at(-1)
    t.equal(JSON.parse(last?.data ?? '{}').response.metadata.x_service_error_code, 'access_revoked')
  }
  t.equal((await closed)[0], 1008)
  t.ok(passedMs() < endsWithinMs, `${passedMs()} ms`)
  // The rights stand, so the caller comes back at once.
  ;(await openStream(second, gone.headers)).leave()
  for (const answer of staying) {
    const { length } = answer.text()
    await until(() => answer.text().length > length, 'further events')
    answer.leave()
  }
  const { rows } = await writer.query("select * from audit_events where action = 'sessions.ended'")
  t.match(rows, [{ credential: 'command-line', actor_id: null, subject_id: gone.id, token_id: null }])
  const ends = () => readAudit(auditFile).filter(({ audit, subject }) => audit === 'end' && subject.id === gone.id)
  await until(() => ends().length === 3, 'the lines of the audit')
  for (const line of ends())
    t.match(line, {
      reason: 'access_revoked',
      cause: 'session_ended',
      sessionEndId: order.id,
      credential: { kind: 'api-token', id: gone.tokenId },
      organizationId: 1,
      sentBytes: Number,
      openedAt: /^20/,
    })
  t.match(
    await readMetrics(second),
    /sallyport_exchanges_ended_total\{reason="access_revoked",cause="session_ended"[^}]*\} [1-9]/,
  )
})

t.test('an order by token, route or request ends that alone, and none is a wish for everything', async (t) => {
  const account = await addAccount('narrow')
  const stream = await openStream(first, account.headers)
  const request = `session-${opened}`
  const other = await openStream(first, account.headers)
  const socket = await openSocket(t, first, account.headers)
  t.match(await sessions('end', '--request', request), { code: 0, stdout: /^order \d+: every replica ends/ })
  await stream.whole()
  const closed = once(socket, 'close')
  await writer.query("insert into session_ends (token_id, route) values ($1, 'socket')", [account.tokenId])
  t.equal((await closed)[0], 1008)
  t.notOk(other.hasEnded())
  t.match(await sessions('end'), { code: 2, stderr: /name what to end/ })
  t.match(await sessions('end', '--user', 'ann'), { code: 2, stderr: /--user must be an id/ })
  for (const query of ['user=0', 'user=ann', 'limit=5000', 'after=1.2', `route=${'x'.repeat(300)}`])
    t.match(await list(query), { error: `${query.split('=')[0]} cannot be read` })
  t.match(await sessions('list', '--admin', 'http://127.0.0.1:1'), {
    code: 1,
    stderr: /no list of exchanges came from .* Check --admin/,
  })
  await t.rejects(writer.query('insert into session_ends default values'), 'an order of everything')
  t.notOk(other.hasEnded())
  other.leave()
})

t.test('a notification alone ends nothing', async (t) => {
  const account = await addAccount('notified')
  const answer = await openStream(first, account.headers)
  const reads = async () =>
    Number(/seconds_count\{statement="read-session-ends"[^}]*\} (\d+)/.exec(await readMetrics(first))?.[1] ?? 0)
  const before = await reads()
  for (let id = 1; id <= 50; id++)
    await writer.query(`select pg_notify('sallyport_changes', '{"kind":"session-end","id":${id}}')`)
  await until(async () => (await reads()) > before, 'a look at the rows')
  const { length } = answer.text()
  await until(() => answer.text().length > length, 'further events')
  t.notOk(answer.hasEnded())
  answer.leave()
})

t.test('a login that may notify orders nothing without a grant', async (t) => {
  const role = `onlooker_${process.pid}`
  await writer.query(
    `create role ${role}; grant ${role} to current_user; grant usage on schema public, sallyport_directory to ${role}`,
  )
  t.teardown(() => writer.query(`drop owned by ${role}; drop role ${role}`))
  const runAs = async (text: string): Promise<unknown> => {
    await writer.query(`begin; set local role ${role}`)
    return writer.query(text).finally(() => writer.query('rollback'))
  }
  await runAs(`select pg_notify('sallyport_changes', '{"kind":"session-end","id":1}')`)
  const logout = "logouts (issuer, subject, at, expires_at) values ('i', 's', now(), now())"
  for (const row of ['session_ends (user_id) values (1)', logout])
    for (const schema of ['public', 'sallyport_directory'])
      await t.rejects(runAs(`insert into ${schema}.${row}`), { code: '42501' }, `${schema}.${row}`)
})

t.test('an order that is not heard is read within a second', async (t) => {
  const account = await addAccount('unheard')
  const answers = await Promise.all([first, second].map((replica) => openStream(replica, account.headers)))
  notifications.freeze()
  t.teardown(() => notifications.thaw())
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  await writer.query('insert into session_ends (token_id) values ($1)', [account.tokenId])
  const passedMs = startFairClock(t)
  for (const answer of answers) await answer.whole()
  t.ok(passedMs() < endsWithinMs, `${passedMs()} ms`)
})
