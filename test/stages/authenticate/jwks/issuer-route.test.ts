import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import t, { type Test } from 'tap'
import { loadConfiguration } from '../../../../gateway/configuration/configuration.ts'
import { fetchThrough } from '../../../../gateway/http/outsiders.ts'
import { describeError } from '../../../../gateway/observe/log/log.ts'
import { checkIssuers } from '../../../../gateway/run/boot/check-issuers.ts'
import { createVerifier } from '../../../../gateway/run/boot/issuers.ts'
import { createKeyLoader } from '../../../../gateway/stages/authenticate/jwks/fetch.ts'
import { createAuthority, ownNames, testCertificates } from '../../../support/certificates.ts'
import { startFairClock } from '../../../support/fair-clock.ts'
import { startRawUpstream, writeConfiguration } from '../../../support/gateway.ts'
import { createSigner } from '../../../support/key-set.ts'
import { startSecureUpstream } from '../../../support/secure-upstream.ts'

const { jwk, sign } = await createSigner('first')
const { signal } = new AbortController()

type Route = Readonly<{ ca?: string; proxy?: string; timeoutMs?: number }>

const load = (address: string, { timeoutMs = 2_000, ...route }: Route) =>
  createKeyLoader(address, `${address}/keys`, {
    timeoutMs,
    insecure: false,
    through: (work) => fetchThrough(route, work),
  })({
    reason: 'refresh',
    signal,
  })

/** An https issuer whose certificate comes from an authority of its own. */
async function startPrivateIssuer(t: Test) {
  const authority = createAuthority(t)
  const { url, port } = await startSecureUpstream(t, authority.issue(ownNames), (_request, response) =>
    response.end(JSON.stringify({ keys: [jwk] })),
  )
  return { ca: authority.cert, url, port }
}

/** A forward proxy that wants this user and password. */
async function startForwardProxy(t: Test, credential: string) {
  const asked: string[] = []
  const server = createServer()
  server.on('connect', (request, client, head) => {
    asked.push(String(request.url))
    client.on('error', () => undefined)
    const isKnown = request.headers['proxy-authorization'] === `Basic ${Buffer.from(credential).toString('base64')}`
    if (!isKnown) {
      client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
      return
    }
    const [host, port] = String(request.url).split(':')
    const issuer = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      issuer.write(head)
      issuer.pipe(client).pipe(issuer)
    })
    issuer.on('error', () => client.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { asked, at: `127.0.0.1:${(server.address() as AddressInfo).port}` } // a TCP listener's address is never a string
}

testCertificates(t, 'an issuer of a private authority is reached by that authority alone', async (t) => {
  const { url, ca } = await startPrivateIssuer(t)
  t.same(await load(url, { ca }), [jwk])
  await t.rejects(load(url, {}), /could not be asked: .*(?:CERT|SIGNATURE)/)
  const other = createAuthority(t)
  await t.rejects(load(url, { ca: other.cert }), /could not be asked: .*(?:CERT|SIGNATURE)/)
})

testCertificates(t, 'the file of an authority is checked at the start, and read again at each fetch', async (t) => {
  const { ca, url } = await startPrivateIssuer(t)
  const { certFile } = createAuthority(t)
  const issuers = [{ issuer: url, audience: 'a', jwksUri: `${url}/keys`, tls: { ca: `file:${certFile}` } }]
  const file = writeConfiguration(t, { settings: { issuers } })
  const configuration = loadConfiguration(file, {})
  checkIssuers(configuration)
  const { verify, stop } = createVerifier(configuration)
  t.teardown(stop)
  const jwt = await sign('first', { iss: url, aud: 'a', exp: Date.now() / 1000 + 600 })
  const refused: unknown = await Promise.resolve(verify(jwt)).catch((error) => error)
  t.match(refused, { exactCause: 'issuer_unavailable' }, 'of another authority')
  writeFileSync(certFile, ca)
  t.match(await verify(jwt), { claims: { subject: 'a' } })
  writeFileSync(certFile, 'no certificate')
  t.throws(() => checkIssuers(loadConfiguration(file, {})), {
    message: new RegExp(`issuers: tls\\.ca of ${url} holds no certificate in PEM`),
  })
})

testCertificates(t, 'a forward proxy leads to the issuer, whose certificate is still checked', async (t) => {
  const { url, port, ca } = await startPrivateIssuer(t)
  const { asked, at } = await startForwardProxy(t, 'user:canary-password')
  t.same(await load(url, { ca, proxy: `http://user:canary-password@${at}` }), [jwk])
  t.same(asked, [`localhost:${port}`])
  await t.rejects(load(url, { proxy: `http://user:canary-password@${at}` }), /could not be asked/, 'no authority')
  const failed: unknown = await load(url, { ca, proxy: `http://user:wrong-canary@${at}` }).catch((error) => error)
  t.match(describeError(failed), { message: /could not be asked/ })
  t.notMatch(JSON.stringify(describeError(failed)), /canary|user:/, 'no secret is told')
  const nowhere: unknown = await load(url, { proxy: 'http://user:canary-password@127.0.0.1:1' }).catch((error) => error)
  t.notMatch(JSON.stringify(describeError(nowhere)), /canary|user:/)
})

t.test('an issuer that does not answer is given up in time', async (t) => {
  const { url } = await startRawUpstream(t, () => undefined)
  const passedMs = startFairClock(t)
  await t.rejects(load(url, { timeoutMs: 100 }), /did not answer in 100 ms/)
  await t.rejects(load(url, { timeoutMs: 100, proxy: url }), /did not answer in 100 ms/)
  t.ok(passedMs() < 2_000, `${passedMs()} ms`)
})
