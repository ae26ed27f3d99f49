import { readFileSync, statSync } from 'node:fs'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import {
  countAudited,
  countIds,
  createStart,
  decisionsOf,
  makeId,
  readAudit,
  settleWritten,
  startAuditedGateway,
  startAuditUpstream,
} from '../support/audit.ts'
import { call, callRaw, type JsonValue } from '../support/client.ts'
import { openRawClient, until } from '../support/gateway.ts'
import { startServing } from '../support/serve.ts'
import { askAtOnce } from '../support/workers.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'
import { type Storm, storm } from './audit-storm.ts'

const world = await startTestWorld(t)
const { owner, member } = world.users
const { robot } = world.serviceAccounts
const upstream = await startAuditUpstream(t)
const start = createStart(world, upstream)

/** In this process, where no log is looked at. */
async function startHere(t: Test, settings: Readonly<Record<string, unknown>>, audit: object = {}) {
  const names = ['platform', 'agents', 'files', 'graphql', 'data']
  const upstreams = Object.fromEntries(names.map((name) => [name, { url: upstream.url }]))
  const serving = await startAuditedGateway(t, { world, settings, upstreams }, audit)
  return { serving, file: serving.auditFile }
}

function checkLines(t: Test, lines: readonly JsonValue[], { certain, possible, unreadable, brokenBodies }: Storm) {
  const counts = countIds(lines)
  t.same(
    certain.filter((id) => counts.get(id) !== 1),
    [],
    'each request that was answered has one line',
  )
  t.same(
    possible.filter((id) => (counts.get(id) ?? 0) > 1),
    [],
    'and none has two',
  )
  const known = new Set([...certain, ...possible])
  const others = lines.filter(({ requestId }) => !known.has(requestId))
  const failures = lines.filter(({ audit }) => audit === 'failure')
  t.ok(failures.length >= brokenBodies, 'a broken body is a failure of a request that was let through')
  t.ok(failures.every(({ cause, status }) => typeof cause === 'string' && status >= 400))
  t.equal(others.length, unreadable, 'all others could not be read')
  t.ok(others.every(({ outcome, path, subject }) => outcome === 'refused' && path === null && subject === null))
}

t.test('every request has one line, whatever became of it', async (t) => {
  const { serving, file } = await start(t)
  const stormed = await storm(serving, world)
  t.ok(stormed.certain.length > 2_000)
  const { requests, malformed, dropped } = await settleWritten(serving, stormed.brokenBodies)
  t.equal(dropped, 0)
  await until(async () => (await countAudited(serving)).written === readAudit(file).length, 'the count of all lines')
  const lines = readAudit(file)
  // A broken body counts as malformed, but the decision about its request came first.
  t.equal(decisionsOf(lines).length, requests + malformed - stormed.brokenBodies)
  checkLines(t, lines, stormed)
  const text = readFileSync(file, 'utf8')
  for (const secret of [owner.jwt, member.jwt, robot.apiKey, robot.revoked]) t.notOk(text.includes(secret))
  t.notMatch(text, /oat_|eyJ/)
  t.equal(statSync(file).mode & 0o777, 0o640 & ~process.umask())
})

/** A reset alone: Node's own close would first send a shutdown of TLS. */
function reset(socket: Socket): void {
  const { _handle } = socket as unknown as { _handle: { reset: (done: () => void) => void } } // not in node's types
  _handle.reset(() => {})
}

t.test('a connection that breaks off, or stays silent, has no line', async (t) => {
  const { serving, file } = await start(t, {}, { timeouts: { headersMs: 3_000 } })
  const half = await openRawClient(t, serving.public)
  half.send('GET /nowhere HTTP/1.1\r\nHo')
  const idle = await openRawClient(t, serving.public)
  idle.send('GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n')
  await idle.until(/404/)
  const silent = await openRawClient(t, serving.public)
  for (const { socket } of [idle, half]) reset(socket)
  await silent.closed()
  const late = await openRawClient(t, serving.public)
  late.send('GET /nowhere HTTP/1.1\r\nHo')
  t.match(await late.closed(), / 408 /)
  await until(() => readAudit(file).length > 1, 'the line of the one that came too slowly')
  const { requests, malformed } = await settleWritten(serving)
  t.same([requests, malformed], [1, 1])
  t.match(
    serving.log().filter(({ msg }) => msg === 'malformed request'),
    [{ level: 'info', reason: 'request_timeout' }],
  )
  t.same(
    readAudit(file).map(({ reason }) => reason),
    ['route_not_found', 'request_timeout'],
  )
})

t.test('lines of several workers stand whole in one file', async (t) => {
  const { serving, file } = await start(t, {}, { workers: 2 })
  const stormed = await storm(serving, world)
  const { requests, malformed } = await settleWritten(serving, stormed.brokenBodies)
  const decided = requests + malformed - stormed.brokenBodies
  await until(() => decisionsOf(readAudit(file)).length >= decided, 'every line')
  const lines = readAudit(file)
  t.equal(decisionsOf(lines).length, decided)
  checkLines(t, lines, stormed)
  t.equal(new Set(lines.map(({ replica }) => replica)).size, 2)
})

t.test('by default the audit is on standard output, told from the log by its first field', async (t) => {
  const serving = await startServing(t, { world, upstream: upstream.url, settings: { workers: 2 } })
  const ids = Array.from({ length: 400 }, makeId)
  let next = 0
  await askAtOnce(20, 20, () =>
    call(serving.public, { path: '/nowhere', headers: { 'x-request-id': ids[next++] ?? '' } }),
  )
  await until(() => serving.audit().length === 400, 'every line')
  t.same([...countIds(serving.audit()).keys()].sort(), [...ids].sort())
  await until(() => serving.log().filter(({ msg }) => msg === 'request').length === 400, 'every line of the log')
  t.ok(serving.stdout().includes('\n{"audit":"decision",'))
})

t.test('a line says who, by what credential, for whom, to what, and why', async (t) => {
  const { serving, file } = await startHere(t, {}, { replica: 'gateway-7' })
  const lineOf = async (request: Parameters<typeof call>[1], listener: 'public' | 'decision' = 'public') => {
    const id = makeId()
    const headers = { ...request.headers, 'x-request-id': id }
    await call(serving[listener], { ...request, headers })
    await until(() => readAudit(file).some(({ requestId }) => requestId === id), 'the line')
    return readAudit(file).find(({ requestId }) => requestId === id)
  }
  const acme = world.organizations.acme.id
  t.match(await lineOf({ path: '/datasets?secret=1', headers: bearer(robot.apiKey) }), {
    time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
    listener: 'public',
    outcome: 'allowed',
    status: null,
    reason: null,
    check: null,
    subject: { id: robot.id, kind: 'client-managed' },
    credential: { kind: 'api-token', id: Number },
    organizationId: acme,
    route: 'datasets.list',
    method: 'GET',
    path: '/datasets',
    clientAddress: '127.0.0.1',
    replica: `gateway-7/${process.pid}`,
  })
  t.match(await lineOf({ path: '/admin/x', headers: oauth(member) }), {
    outcome: 'refused',
    status: 403,
    reason: 'role_insufficient',
    check: 'role',
    subject: { id: member.id, kind: 'human' },
    credential: { kind: 'oauth', id: null },
    organizationId: acme,
    route: 'admin.any',
  })
  t.match(await lineOf({ path: '/datasets' }), {
    outcome: 'refused',
    status: 401,
    reason: 'unauthenticated',
    check: null,
    subject: null,
    credential: null,
    organizationId: null,
    route: 'datasets.list',
  })
  t.match(await lineOf({ path: '/nowhere' }), { status: 404, reason: 'route_not_found', route: null, path: '/nowhere' })
  // The policy allows it, but the gateway does not let it through.
  t.match(await lineOf({ path: '/clusters/2/proxy/x', headers: oauth(member) }), {
    outcome: 'refused',
    status: 403,
    reason: 'cluster_suspended',
    check: 'resource',
    subject: { id: member.id },
  })
  const about = { 'x-original-method': 'GET', 'x-original-uri': '/datasets' }
  t.match(await lineOf({ path: '/authorize', headers: { ...about, ...oauth(member) } }, 'decision'), {
    listener: 'decision',
    outcome: 'allowed',
    status: 200,
    method: 'GET',
    path: '/datasets',
    subject: { id: member.id },
  })
  const odd = { ...about, 'x-original-method': 'G\u00c9T"}' }
  t.match(await lineOf({ path: '/authorize?statuses=nginx', headers: odd }, 'decision'), {
    outcome: 'refused',
    status: 405,
    method: 'G\u00c9T"}',
  })
  t.match(await lineOf({ method: 'POST', path: '/authorize' }, 'decision'), { status: 400, method: null, path: null })
})

t.test('no client can split, forge or swell a line', async (t) => {
  const { serving, file } = await startHere(t, { trustedProxies: ['127.0.0.1'] })
  const forged = '{"audit":"decision","requestId":"forged"}'
  const heads = [
    `GET /nowhere HTTP/1.1\r\nHost: h\r\nUser-Agent: ${'u'.repeat(10_000)}`,
    `GET /nowhere HTTP/1.1\r\nHost: h\r\nUser-Agent: \x85\u2028\xff\xfe${forged}`,
    `GET /${'p'.repeat(7_900)} HTTP/1.1\r\nHost: h`,
    `GET /${'p'.repeat(10_000)} HTTP/1.1\r\nHost: h`,
    `GET /"},${encodeURIComponent(forged)}%0d%0a HTTP/1.1\r\nHost: h`,
    `GET /\xe2\x80\xa8\x0b HTTP/1.1\r\nHost: h`,
    `GET /oat_MTI.c2VjcmV0c2VjcmV0 HTTP/1.1\r\nHost: h`,
    `GET /nowhere HTTP/1.1\r\nHost: h\r\nx-request-id: a\tb"${forged}`,
    `GET /nowhere HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: fe80::1%${'z'.repeat(9_000)}`,
    `GET /nowhere HTTP/1.1\r\nHost: h\r\nx-y: a\r${forged}`,
    `GET /nowhere HTTP/1.1\r\nHost: h\r\nx-y: a\n\n${forged}`,
    `${'M'.repeat(9_000)} /nowhere HTTP/1.1\r\nHost: h`,
  ]
  for (const head of heads)
    await callRaw(serving.public, Buffer.from(`${head}\r\nConnection: close\r\n\r\n`, 'latin1'), 300)
  await until(() => readAudit(file).length >= heads.length, 'every line')
  const { requests, malformed } = await settleWritten(serving)
  const lines = readAudit(file)
  t.equal(lines.length, requests + malformed)
  t.equal(lines.length, heads.length)
  t.notOk(lines.some(({ requestId }) => requestId === 'forged'))
  t.ok(lines.every(({ audit, outcome }) => audit === 'decision' && outcome === 'refused'))
  t.ok(
    readFileSync(file, 'utf8')
      .split('\n')
      .every(({ length }) => length < 4_096),
  )
  t.same(
    lines.filter(({ isTruncated }) => isTruncated).map(({ path }) => path.length),
    [1_024],
  )
  t.notMatch(readFileSync(file, 'utf8'), /oat_/)
})
