import pg from 'pg'
import t, { type Test } from 'tap'
import type { Call } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { freezePostgres } from '../support/freeze-postgres.ts'
import { until } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnServer: true })
const { robot, robotAdmin } = world.serviceAccounts

/** Requests that need the directory, by callers without cache entries. */
async function composeCalls(subject: string, token: string): Promise<readonly Call[]> {
  const newcomer = oauth({ jwt: await world.mint({ sub: subject, email: `${subject}@demo.example` }) })
  return [
    { path: '/public/x', headers: newcomer },
    { path: '/datasets', headers: bearer(token) },
    { path: '/users/me', headers: newcomer },
    { path: '/clusters/1/proxy/x', headers: bearer(token) },
    { method: 'POST', path: '/agent/1/responses', headers: bearer(token), body: '{}' },
    { path: '/data/x', headers: bearer(token) },
  ]
}

/** Cached entries answer for a moment longer than the database; readiness does not. */
const isWell = async (): Promise<boolean> => (await fetch(`${world.admin}/readyz`)).status === 200

async function expectUnavailable(t: Test, calls: readonly Call[]): Promise<void> {
  await world.clearRecorder()
  await Promise.all(
    [...calls, ...calls, ...calls, ...calls].map(async (request) => {
      const passedMs = startFairClock(t)
      const { status } = await world.call(request)
      const tookMs = passedMs()
      t.equal(status, 503, request.path)
      t.ok(tookMs < 2_000, `${request.path} took ${tookMs} ms`)
    }),
  )
  t.same(await world.recorded(), [], 'nothing went on')
}

async function expectPublicRoute(t: Test): Promise<void> {
  t.equal((await world.call({ path: '/status' })).status, 200)
  t.equal((await fetch(`${world.admin}/healthz`)).status, 200, 'alive')
  const ready = await fetch(`${world.admin}/readyz`)
  t.equal(ready.status, 503)
  t.match(await ready.json(), { checks: { database: 'failing' } })
}

/** Fills the pool, so that an outage hits both busy and new connections. */
const warmUp = async (): Promise<void> => {
  await until(isWell, 'a working directory', 20_000)
  await Promise.all(Array.from({ length: 20 }, isWell))
}

t.test('a killed database is 503 at once for requests that need it, and recovers by itself', async (t) => {
  const calls = await composeCalls('newcomer-killed', robot.apiSecret)
  await warmUp()
  process.kill(Number(world.world.postgres.pid()), 'SIGKILL')
  await until(() => world.world.postgres.pid() === undefined, 'its end')
  await expectUnavailable(t, calls)
  await expectPublicRoute(t)
  await until(isWell, 'the recovery', 15_000)
  for (const request of calls) t.not((await world.call(request)).status, 503, `${request.path} afterwards`)
})

t.test('a frozen database is 503 within 2 s for requests that need it, and recovers by itself', async (t) => {
  const calls = await composeCalls('newcomer-frozen', robotAdmin.apiSecret)
  await warmUp()
  const thaw = freezePostgres(Number(world.world.postgres.pid()))
  t.teardown(thaw)
  await expectUnavailable(t, calls)
  await expectUnavailable(t, calls)
  await expectPublicRoute(t)
  thaw()
  await until(isWell, 'the recovery', 15_000)
  for (const request of calls) t.not((await world.call(request)).status, 503, `${request.path} afterwards`)
})

t.test('a first login under way when the database dies is 503, and not the end of the process', async (t) => {
  const newcomer = oauth({ jwt: await world.mint({ sub: 'newcomer-halfway', email: 'halfway@demo.example' }) })
  await warmUp()
  const blocker = new pg.Client({ connectionString: world.databaseUrl })
  blocker.on('error', () => {})
  await blocker.connect()
  t.teardown(() => blocker.end().catch(() => {}))
  // Readers pass; the login's insert waits inside its transaction.
  await blocker.query('begin')
  await blocker.query('lock table users in share mode')
  const login = world.call({ path: '/public/x', headers: newcomer })
  await until(async () => {
    const { rows } = await blocker.query("select from pg_locks where not granted and relation = 'users'::regclass")
    return rows.length > 0
  }, 'the waiting insert')
  process.kill(Number(world.world.postgres.pid()), 'SIGKILL')
  t.equal((await login).status, 503)
  t.equal((await fetch(`${world.admin}/healthz`)).status, 200, 'the process goes on')
  await until(isWell, 'the recovery', 15_000)
  t.equal((await world.call({ path: '/public/x', headers: newcomer })).status, 200, 'the login succeeds later')
})
