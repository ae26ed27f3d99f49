import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import t, { type Test } from 'tap'
import { createIssuerKeyStore } from '../../gateway/directory/postgres/issuer-keys.ts'
import { openDatabase } from '../../gateway/directory/postgres/pool.ts'
import { runCommand } from '../support/command-line.ts'
import { startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const databaseOptions = { pooler: 'none', poolSize: 1, connectTimeoutMs: 10_000, queryTimeoutMs: 10_000 } as const
const stored = openDatabase({ url: world.databaseUrl, ...databaseOptions }, () => undefined)
t.teardown(() => stored.close())
const store = createIssuerKeyStore(stored.query)
const { publicKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), kid: 'only', alg: 'ES256', use: 'sig' }

/** An issuer whose discovery document and status the test changes. */
async function startIssuer(t: Test) {
  const state = { name: '', status: 200 }
  const server = createServer((request, response) => {
    const isKeys = request.url === '/keys'
    response.statusCode = state.status
    response.end(JSON.stringify(isKeys ? { keys: [jwk] } : { issuer: state.name, jwks_uri: `${origin}/keys` }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
  state.name = origin
  return Object.assign(state, { origin })
}

async function start(t: Test, issuers: readonly Readonly<Record<string, unknown>>[]) {
  const database = { url: world.databaseUrl, connectTimeoutMs: 10_000, queryTimeoutMs: 10_000 }
  const gateway = await startTestGateway(t, {
    world,
    settings: { database, issuers: issuers.map((issuer) => ({ audience: 'us', ...issuer })) },
  })
  const ask = async () => {
    const answer = await fetch(`${gateway.admin}/readyz`)
    return { status: answer.status, body: await answer.json() }
  }
  const becomesReady = () => until(async () => (await ask()).status === 200, 'readiness')
  return { ...gateway, ask, becomesReady }
}

t.test('an issuer that names itself otherwise keeps a gateway from being ready until it is mended', async (t) => {
  const issuer = await startIssuer(t)
  issuer.name = `${issuer.origin}/realms/other\u001b[2J`
  const gateway = await start(t, [{ issuer: issuer.origin }])
  const url = `${issuer.origin}/.well-known/openid-configuration`
  const cause = `${issuer.origin} has given no keys: the document at ${url} names the issuer "${issuer.origin}/realms/other?[2J", and issuers has "${issuer.origin}"`
  t.match(await gateway.ask(), { status: 503, body: { checks: { issuers: 'failing' }, causes: { issuers: cause } } })
  const admin = { host: '127.0.0.1', port: Number(new URL(gateway.admin).port) }
  const config = writeConfiguration(t, { world, settings: { listeners: { admin } } })
  const { code, stderr } = await runCommand(['healthcheck', '--config', config])
  t.equal(code, 1)
  t.ok(stderr.includes(cause), stderr)
  issuer.status = 404
  await until(async () => JSON.stringify(await gateway.ask()).includes(`${url} answered 404`), 'the status')
  Object.assign(issuer, { name: issuer.origin, status: 200 })
  await gateway.becomesReady()
  issuer.status = 500
  t.match(await gateway.ask(), { status: 200, body: { checks: { issuers: 'ok' } } }, 'keys that came once are enough')
})

t.test('stored keys make a gateway ready whose issuer is down', async (t) => {
  const issuer = await startIssuer(t)
  const first = await start(t, [{ issuer: issuer.origin }])
  await first.becomesReady()
  // Nothing tells when the keys are in the store: a gateway that drains has written them.
  await until(() => store.load(issuer.origin), 'the stored keys')
  issuer.status = 503
  const second = await start(t, [{ issuer: issuer.origin }])
  await second.becomesReady()
  t.equal(issuer.status, 503, 'by the keys in the store alone')
})

t.test('an issuer that is not required may be down', async (t) => {
  const issuer = await startIssuer(t)
  const gateway = await start(t, [{ issuer: issuer.origin }, { issuer: 'http://127.0.0.1:4', required: false }])
  await gateway.becomesReady()
  const strict = await start(t, [{ issuer: issuer.origin }, { issuer: 'http://127.0.0.1:4' }])
  const refused = 'http://127.0.0.1:4 has given no keys: http://127.0.0.1:4/.well-known/openid-configuration could not'
  const { status, body } = await strict.ask()
  t.equal(status, 503)
  t.ok(JSON.stringify(body).includes(refused), JSON.stringify(body))
})
