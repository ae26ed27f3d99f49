import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { startServing } from '../support/serve.ts'
import {
  askAtOnce,
  busyWorkers,
  countRequests,
  countRestarts,
  nameRequest,
  nowhere,
  pidOf,
  readiness,
  readMetric,
  startGroup,
  visitBoth,
} from '../support/workers.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const execute = promisify(execFile)

const skip = process.platform === 'linux' ? false : 'looks at processes by /proc'

const world = await startTestWorld(t)

/** For tests that leave the group as they found it; they compare counts by differences. */
const shared = await startGroup(t, { world })

t.test('two gateways on one database serve the same users, and a token of one works at the other', async (t) => {
  const [first, second] = await Promise.all([startServing(t, { world }), startServing(t, { world })])
  const { owner } = world.users
  const { acme } = world.organizations
  const { robot } = world.serviceAccounts
  for (const { public: origin } of [first, second])
    t.match((await call(origin, { path: '/users/me', headers: oauth(owner) })).json(), { data: { id: owner.id } })

  const path = `/organizations/${acme.id}/users/${robot.id}/tokens`
  const body = JSON.stringify({ scope: 'api-key' })
  const minted = await call(first.public, { method: 'POST', path, headers: oauth(owner), body })
  t.equal(minted.status, 201)
  const { token, id } = minted.json().data
  const useAt = async (origin: string): Promise<number> =>
    (await call(origin, { path: '/users/me', headers: bearer(token) })).status
  t.equal(await useAt(second.public), 200)
  t.equal(await useAt(first.public), 200)

  await call(second.public, { method: 'DELETE', path: `${path}/${id}`, headers: oauth(owner) })
  await until(async () => (await useAt(first.public)) === 401, 'the revocation at the other gateway')
  t.equal(await useAt(second.public), 401)
})

t.test('one worker, the default, is one process whose log and metrics know no workers', { skip }, async (t) => {
  const serving = await startServing(t, { world })
  await call(serving.public, nowhere)
  await until(() => serving.stdout().includes('route_not_found'), 'the line')
  t.notMatch(serving.stdout(), /worker/)
  t.same(await readMetric(serving, 'sallyport_workers'), {})
  t.equal(readFileSync(`/proc/${serving.pid}/task/${serving.pid}/children`, 'utf8'), '')
})

t.test('both workers serve at the same listeners, and each log line names its worker', async (t) => {
  await visitBoth(shared)
  t.same([...busyWorkers(shared)].sort(), [1, 2])
  const judged = await call(shared.decision, {
    path: '/authorize',
    headers: { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/datasets', ...oauth(world.users.owner) },
  })
  t.equal(judged.status, 200)
  const keys = (await call(shared.admin, { path: '/.well-known/jwks.json' })).json()
  t.equal(keys.keys.length, 1, 'the same key of both is told once')
  const [head = ''] = String(judged.headers['x-gateway-identity']).split('.')
  t.equal(JSON.parse(Buffer.from(head, 'base64url').toString()).kid, keys.keys[0].kid)
  t.equal((await call(shared.admin, { path: '/healthz' })).status, 200)
  t.match(await readiness(shared), {
    status: 200,
    checks: { database: 'ok', policy: 'ok', draining: 'ok', workers: 'ok' },
  })
})

t.test('lines of the log stay whole when workers write into a full pipe', async (t) => {
  const log = fileURLToPath(new URL('../../dist/gateway/observe/log/log.js', import.meta.url))
  // Bursts, so that lines are written together, to a reader that makes little room at a time.
  const script = `
    import { createLog } from '${log}'
    const log = createLog('info', { worker: Number(process.argv[1]) })
    for (let burst = 0; burst < 50; burst++) {
      for (let line = 0; line < 100; line++) log.info({ text: 'x'.repeat(100) }, 'line')
      await new Promise((resolve) => setTimeout(resolve, 5))
    }`
  const write = (worker: number): string => `"$0" --input-type=module -e "$1" ${worker} &`
  const command = `( ${write(1)} ${write(2)} wait ) | ( sleep 2; dd bs=1000 2>/dev/null )`
  const { stdout } = await execute('sh', ['-c', command, process.execPath, script], { maxBuffer: 1e8 })
  const lines = stdout.trim().split('\n')
  t.equal(lines.length, 10_000)
  t.doesNotThrow(() => lines.map((line) => JSON.parse(line)))
})

t.test('metrics add up over the workers, and what cannot be added is told once', async (t) => {
  await visitBoth(shared)
  const series = 'route="none",method="GET",status="404"'
  const read = async (): Promise<readonly (number | undefined)[]> => [
    (await readMetric(shared, 'sallyport_requests_total'))[series],
    (await readMetric(shared, 'sallyport_request_duration_seconds_count'))['route="none"'],
  ]
  const [requests = 0, durations = 0] = await read()
  const share = nameRequest()
  await askAtOnce(8, 25, () => call(shared.public, share))
  // A worker that keeps the primary waiting is counted as it was.
  await until(async () => (await read()).join() === [requests + 200, durations + 200].join(), 'the sums')
  await until(() => busyWorkers(shared, share.headers['x-request-id']).size === 2, 'that both had a share')
  await until(async () => (await readMetric(shared, 'sallyport_requests_in_flight'))[''] === 0, 'no request under way')
  t.same(await readMetric(shared, 'sallyport_workers'), { '': 2 })
  const issuer = `issuer="${world.oidc.issuer}"`
  t.ok(Number((await readMetric(shared, 'sallyport_jwks_age_seconds'))[issuer]) < 150)
  const started = Number((await readMetric(shared, 'process_start_time_seconds'))[''])
  t.ok(Math.abs(started - Date.now() / 1_000) < 150, 'a time, and no sum of times')
})

t.test('kill -9 of a worker: the other goes on, another takes its place, and no count falls', { skip }, async (t) => {
  await visitBoth(shared)
  const requests = await countRequests(shared)
  const restarts = await countRestarts(shared)
  const victim = pidOf(shared, 1)
  process.kill(victim, 'SIGKILL')
  for (let count = 0; count < 20; count++) t.equal((await call(shared.public, nowhere)).status, 404)
  await until(() => pidOf(shared, 1) !== victim, 'another worker', 60_000)
  t.equal(await countRestarts(shared), restarts + 1)
  t.same(await readMetric(shared, 'sallyport_workers'), { '': 2 })
  await until(async () => (await countRequests(shared)) === requests + 20, 'the sum of all that were answered')
  const death = shared.log().find(({ msg, pid }) => msg.startsWith('worker died') && pid === victim)
  t.match(death, { level: 'error', worker: 1, signal: 'SIGKILL' })
  t.equal((await readiness(shared)).status, 200)
})

t.test('when all workers die at once, new ones serve at the same listeners', { skip }, async (t) => {
  const restarts = await countRestarts(shared)
  const victims = [pidOf(shared, 1), pidOf(shared, 2)]
  for (const pid of victims) process.kill(pid, 'SIGKILL')
  await until(() => !victims.includes(pidOf(shared, 1)) && !victims.includes(pidOf(shared, 2)), 'new workers', 60_000)
  await until(async () => Number((await readMetric(shared, 'sallyport_workers'))['']) === 2, 'both workers', 60_000)
  t.ok((await countRestarts(shared)) >= restarts + 2)
  t.equal((await call(shared.public, nowhere)).status, 404)
  await visitBoth(shared)
})

t.test('a frozen worker makes the group unready, and takes no new client', { skip }, async (t) => {
  const frozen = pidOf(shared, 2)
  const before = await countRequests(shared)
  process.kill(frozen, 'SIGSTOP')
  const unready = await readiness(shared)
  const during = await countRequests(shared)
  const answers = await Promise.all(Array.from({ length: 10 }, () => call(shared.public, nowhere)))
  process.kill(frozen, 'SIGCONT')
  t.ok(
    answers.every(({ status }) => status === 404),
    'clients do not notice',
  )
  t.match(unready, { status: 503, checks: { workers: 'failing', database: 'ok' } })
  t.equal(during, before, 'its last numbers stay in the sum')
  t.equal((await readiness(shared)).status, 200)
})
