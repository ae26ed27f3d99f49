import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { nameServerLack, startNameServer } from '../support/name-server.ts'
import { type Serving, startServing } from '../support/serve.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

/** A backend that keeps no connection alive, so that every request looks up its name. */
async function startBackend(t: Test, host: string, port = 0) {
  const server = createServer((_request, response) => {
    response.setHeader('connection', 'close')
    response.end(host)
  })
  await new Promise<void>((resolve) => server.listen(port, host, resolve))
  t.teardown(() => void server.close())
  return (server.address() as AddressInfo).port // a TCP listener's address is never a string
}

const statusOf = async (gateway: Serving, path: string, headers: Readonly<Record<string, string>> = {}) =>
  (await call(gateway.public, { path, headers })).status

const metric = async (gateway: Serving, name: string): Promise<number> => {
  const { text } = await call(gateway.admin, { path: '/metrics' })
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1])
}

const run = async (t: Test): Promise<void> => {
  const world = await startTestWorld(t)
  const names = await startNameServer(t)
  for (const name of ['platform.test', 'database.test', 'issuer.test']) names.set(name, '127.0.0.1')
  const port = await startBackend(t, '127.0.0.1')
  await startBackend(t, '127.0.0.2', port)
  const databaseUrl = new URL(world.databaseUrl)
  databaseUrl.hostname = 'database.test'
  const issuerUrl = new URL(world.oidc.issuer)
  issuerUrl.hostname = 'issuer.test'
  const upstream = (name: string) => ({ url: `http://${name}:${port}` })
  const gateway = await startServing(t, {
    within: names.command,
    settings: {
      database: { url: String(databaseUrl), connectTimeoutMs: 1_000 },
      dns: { cacheMs: 100 },
      timeouts: { connectMs: 1_000 },
      jwks: { refreshMs: 1_000 },
      issuers: [
        {
          issuer: world.oidc.issuer,
          jwksUri: `${String(issuerUrl).replace(/\/$/, '')}/jwks`,
          audience: world.oidc.audience,
          insecure: true,
        },
      ],
      upstreams: {
        platform: upstream('platform.test'),
        agents: upstream('platform.test'),
        files: upstream('never.test'),
        graphql: upstream('platform.test'),
        data: upstream('never.test'),
      },
    },
  })
  const isReady = async () => (await call(gateway.admin, { path: '/readyz' })).status === 200
  const member = oauth(world.users.member)
  await until(isReady, 'the database by its name', 20_000)
  t.equal(await statusOf(gateway, '/status'), 200)
  t.equal(await statusOf(gateway, '/datasets', member), 200, 'keys of the issuer by its name')

  const keysAge = () => metric(gateway, 'sallyport_jwks_age_seconds{issuer=".*"}')
  await until(async () => (await keysAge()) < 4, 'keys that were just fetched')
  names.silence(true)
  const statuses: number[] = []
  // Longer than the system's lookup takes to fail, so that both its silence and its failure occur.
  const endMs = performance.now() + 4_000
  while (performance.now() < endMs) {
    statuses.push(...(await Promise.all(Array.from({ length: 5 }, () => statusOf(gateway, '/status')))))
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  t.equal(statuses.filter((status) => status !== 200).length, 0, `of ${statuses.length} requests`)
  t.ok(names.asked().length > 0)

  await t.test('takes no connection of the database away', async (t) => {
    const client = new pg.Client({ connectionString: world.databaseUrl })
    await client.connect()
    await client.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'sallyport%' and datname = current_database()",
    )
    await client.end()
    await until(isReady, 'new connections')
    t.equal(await statusOf(gateway, '/datasets', bearer(world.serviceAccounts.robot.apiKey)), 200)
  })
  await t.test('is 503 where the name was never resolved', async (t) => {
    const { status } = await call(gateway.public, { path: '/data/x', headers: member })
    t.equal(status, 503)
  })
  await t.test('delays neither refusals nor the admin listener', async (t) => {
    t.equal(await statusOf(gateway, '/datasets'), 401)
    t.equal((await call(gateway.admin, { path: '/healthz' })).status, 200)
  })
  await t.test('is told by the log and a metric', async (t) => {
    t.ok((await metric(gateway, 'sallyport_dns_stale_seconds')) > 1)
    const lines = () => gateway.log().filter(({ msg }) => msg === 'name not resolved; its last addresses stay in use')
    await until(() => lines().some(({ name }) => name === 'platform.test'), 'the line')
    t.match(new Set(lines().map(({ name }) => name)), new Set(['platform.test']))
  })
  await t.test('is followed again as soon as it answers', async (t) => {
    names.set('platform.test', '127.0.0.2')
    names.silence(false)
    await until(
      async () => (await call(gateway.public, { path: '/status' })).text === '127.0.0.2',
      'the new address',
      10_000,
    )
    await until(async () => (await metric(gateway, 'sallyport_dns_stale_seconds')) === 0, 'no name is stale', 10_000)
    t.equal(await isReady(), true)
  })
}

testUnlessLacking(t, 'a name server that says nothing', run, nameServerLack)
