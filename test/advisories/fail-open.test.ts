import { randomInt } from 'node:crypto'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import t from 'tap'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { call } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway, type TestGateway } from '../support/gateway.ts'

const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
const guarded = { ...openRoute, id: 'guarded', match: { path: '/guarded/*' }, access: 'authenticated' }
const routes = [openRoute, guarded]

const { publicKey, privateKey } = await generateKeyPair('ES256')
const keys = JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'k' }] })
const issuerServer = createServer((_request, response) => response.end(keys))
await new Promise<void>((resolve) => issuerServer.listen(0, '127.0.0.1', resolve))
t.teardown(() => void issuerServer.close().closeAllConnections())
const healthy = `http://127.0.0.1:${(issuerServer.address() as AddressInfo).port}` // a TCP listener's address is never a string

/** Takes connections and never says a word. */
const silent = createTcpServer((socket) => void socket.on('error', () => {}))
await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
t.teardown(() => silent.close())
const { port: silentPort } = silent.address() as AddressInfo
const nowhere = '127.0.0.1:1'

const signFor = (issuer: string, kid = 'k'): Promise<string> =>
  new SignJWT({ sub: 'a' })
    .setIssuer(issuer)
    .setAudience('us')
    .setExpirationTime('1h')
    .setProtectedHeader({ alg: 'ES256', kid })
    .sign(privateKey)

const apiToken = formatToken(1, makeSecret(randomInt).secret)

/** Starts a gateway whose database does not answer. */
const start = (issuer: string, database: string): Promise<TestGateway> =>
  startTestGateway(t, {
    routes,
    upstreams: { platform: { url: upstream.url } },
    settings: {
      database: { url: `postgres://nobody@${database}/nowhere`, connectTimeoutMs: 300, queryTimeoutMs: 300 },
      issuers: [{ issuer, audience: 'us', jwksUri: `${issuer}/jwks` }],
    },
  })

// ingress-nginx CVE-2026-24513: a refusal that was lost let the request through. Here a service that cannot be asked
// has said neither yes nor no.
for (const [what, issuer, database] of [
  ['no database', healthy, nowhere],
  ['a database that says nothing', healthy, `127.0.0.1:${silentPort}`],
  ['no issuer and no database', `http://${nowhere}`, nowhere],
  ['an issuer that says nothing', `http://127.0.0.1:${silentPort}`, nowhere],
] as const)
  t.test(`with ${what} a good credential is 503, a bad one 401, and neither gets in`, async (t) => {
    const gateway = await start(issuer, database)
    const before = upstream.received().join('').length
    const jwt = await signFor(issuer)
    const good: readonly Record<string, string>[] = [
      { 'x-oauth-access-token': jwt },
      { authorization: `Bearer ${apiToken}` },
    ]
    const bad: readonly Record<string, string>[] = [
      {},
      { 'x-oauth-access-token': `${jwt}=` },
      { 'x-oauth-access-token': await signFor('https://evil.example') },
      { authorization: 'Bearer oat_MQ.nonsense' },
      { authorization: `Bearer ${apiToken.slice(0, -2)}` },
    ]
    const told = { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/guarded/x' }
    for (const [headers, status] of [
      ...good.map((one) => [one, 503] as const),
      ...bad.map((one) => [one, 401] as const),
    ]) {
      t.equal((await call(gateway.public, { path: '/guarded/x', headers })).status, status)
      t.equal((await call(gateway.decision, { path: '/authorize', headers: { ...headers, ...told } })).status, status)
      const nginx = await call(gateway.decision, {
        path: '/authorize?statuses=nginx',
        headers: { ...headers, ...told },
      })
      t.equal(nginx.status, status === 503 ? 403 : 401, 'nginx lets no request in either')
    }
    t.equal(upstream.received().join('').length, before, 'nothing arrived')
    t.equal((await call(gateway.public, { path: '/public' })).status, 200, 'a public route goes on')
  })
