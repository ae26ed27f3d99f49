import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createAuthority, ownNames, testCertificates } from '../support/certificates.ts'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { createSigner } from '../support/key-set.ts'
import { runRefused, startServing } from '../support/serve.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const signer = await createSigner('told')

async function listen(t: Test, server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
}

/** An issuer on TLS, and its keys in clear and on TLS; `jwksUri` is what it tells of where they are. */
async function startIssuer(t: Test, jwksUri: (clear: string, secure: string) => string) {
  const authority = createAuthority(t)
  const { cert, key } = authority.issue(ownNames)
  const asked: string[] = []
  let document = {}
  const answer: RequestListener = ({ url = '' }, response) => {
    asked.push(url)
    response.end(JSON.stringify(url === '/keys' ? { keys: [signer.jwk] } : document))
  }
  const clear = `http://${await listen(t, createServer(answer))}/keys`
  const issuer = `https://${await listen(t, createSecureServer({ cert, key }, answer) as unknown as Server)}`
  document = { issuer, jwks_uri: jwksUri(clear, `${issuer}/keys`) }
  return { issuer, clear, asked, environment: { NODE_EXTRA_CA_CERTS: authority.certFile } }
}

const settingsFor = (issuer: object) => ({
  issuers: [{ audience: 'sallyport-demo', clockToleranceSeconds: 0, ...issuer }],
})

/** A token that this key has signed, of an issuer that says where the key is. */
async function useToken(t: Test, jwksUri: (clear: string, secure: string) => string) {
  const { issuer, asked, environment } = await startIssuer(t, jwksUri)
  const serving = await startServing(t, { world, environment, settings: settingsFor({ issuer }) })
  await until(() => asked.length > 0, 'the look at the discovery document')
  const exp = Math.floor(Date.now() / 1_000) + 600
  const jwt = await signer.sign('told', { iss: issuer, aud: 'sallyport-demo', sub: 'newcomer', exp })
  const { status } = await call(serving.public, { path: '/users/me', headers: oauth({ jwt }) })
  return { status, asked, log: serving.log }
}

testCertificates(t, 'keys of an https issuer are not fetched in clear text, whatever its document says', async (t) => {
  for (const scheme of ['http', 'HTTP']) {
    const { status, asked, log } = await useToken(t, (clear) => clear.replace('http', scheme))
    t.equal(status, 503)
    t.notOk(asked.includes('/keys'), 'they are not even asked for')
    const isTold = (): boolean => /the jwks_uri at \S+ is not https/.test(JSON.stringify(log()))
    await until(isTold, 'the line of the log')
    t.notOk(asked.includes('/keys'), 'nor afterwards')
  }
})

testCertificates(t, 'keys of an https issuer are fetched over TLS', async (t) => {
  const { status, asked } = await useToken(t, (_, secure) => secure)
  t.equal(status, 200)
  t.ok(asked.includes('/keys'))
})

t.test('a configuration with an http address for the keys of an https issuer does not start', async (t) => {
  const settings = settingsFor({ issuer: 'https://login.example', jwksUri: 'http://login.example/keys' })
  for (const workers of [1, 2]) {
    const refused = await runRefused(t, { settings: { ...settings, workers } })
    t.equal(refused.code, 2)
    t.match(refused.stderr, /gateway\.yaml:1:\d+: issuers: jwksUri of https:\/\/login\.example is not https/)
  }
})
