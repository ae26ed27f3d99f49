import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import t from 'tap'
import { createVerifier } from '../../gateway/stages/pin/verify.ts'

const { privateKey, publicKey } = await generateKeyPair('EdDSA', { extractable: true })
const keys = [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'EdDSA', use: 'sig' }]
const server = createServer((_, response) => response.end(JSON.stringify({ keys })))
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
t.teardown(() => {
  server.closeAllConnections()
  server.close()
})
const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
const jwksUrl = `http://127.0.0.1:${port}`

type Header = Readonly<{ audience?: string | undefined; issuer?: string; lifeSeconds?: number; ageSeconds?: number }>

/** A header of the gateway's own key; for another backend, unless told otherwise. */
function sign({ audience, issuer = 'sallyport', lifeSeconds = 60, ageSeconds = 0 }: Header): Promise<string> {
  const issuedAt = Math.floor(Date.now() / 1_000) - ageSeconds
  const claims = { iss: issuer, sub: '3', ...(audience !== undefined && { aud: audience }) }
  return new SignJWT({ ...claims, user: {}, organization: null, roles: [], abilities: ['*'], credential: {} })
    .setProtectedHeader({ alg: 'EdDSA', kid: 'one', typ: 'JWT' })
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + lifeSeconds)
    .sign(privateKey)
}

/** The verdict of a backend with these options, typed or not, on a header. */
async function judge(options: object, header: Header): Promise<string> {
  try {
    const verify = createVerifier({ jwksUrl, ...options } as Parameters<typeof createVerifier>[0]) // as without types
    await verify({ method: 'GET', url: '/', headers: { 'x-gateway-identity': await sign(header) } })
    return 'verified'
  } catch (error) {
    return error instanceof TypeError ? 'TypeError' : String((error as { code?: string }).code)
  }
}

const platform = { audience: 'platform' }

// An environment variable that is missing is undefined, and jose leaves out a check that it is not told of.
t.test('a verifier that is not told its audience takes no header at all', async (t) => {
  for (const audience of [undefined, null, '', ' ', [], [''], ['platform', ''], [undefined], {}, 7, true])
    t.equal(await judge({ audience }, { audience: 'files' }), 'TypeError', `audience ${JSON.stringify(audience)}`)
  t.equal(await judge({}, { audience: 'files' }), 'TypeError')
  for (const issuer of [null, '', [], 7])
    t.equal(await judge({ ...platform, issuer }, { audience: 'platform', issuer: 'other' }), 'TypeError')
  for (const algorithm of ['none', 'HS256', '', null, ['EdDSA']])
    t.equal(await judge({ ...platform, algorithm }, platform), 'TypeError', `algorithm ${JSON.stringify(algorithm)}`)
  t.equal(await judge(platform, {}), 'invalid', 'a header for any backend')
  t.equal(await judge(platform, { audience: 'files' }), 'invalid')
  for (const audience of ['platform', ['platform', 'cluster:7']])
    t.equal(await judge({ audience }, platform), 'verified', `audience ${JSON.stringify(audience)}`)
})

t.test('a header lives 60 s, and clocks differ by 60 s, at the most', async (t) => {
  for (const clockTolerance of [-1, 61, 1e9, Number.NaN, Number.POSITIVE_INFINITY, '5', '1 year', null])
    t.equal(await judge({ ...platform, clockTolerance }, { ...platform, ageSeconds: 3_600 }), 'TypeError')
  for (const clockTolerance of [0, 60]) t.equal(await judge({ ...platform, clockTolerance }, platform), 'verified')
  const tolerant = { ...platform, clockTolerance: 60 }
  for (const lifeSeconds of [61, 3_600, 31_536_000])
    t.equal(await judge(tolerant, { ...platform, lifeSeconds }), 'invalid', `a life of ${lifeSeconds} s`)
  for (const ageSeconds of [-3_600, 3_600])
    t.equal(await judge(tolerant, { ...platform, ageSeconds, lifeSeconds: 60 }), 'invalid', `${ageSeconds} s old`)
})

t.test('a header that is bound to no request can be refused, by an option that no misspelling turns off', async (t) => {
  t.equal(await judge({ ...platform, requiresBinding: true }, platform), 'invalid')
  for (const requiresBinding of ['true', 1, null])
    t.equal(await judge({ ...platform, requiresBinding }, platform), 'TypeError')
  t.equal(await judge({ ...platform, requireBinding: true }, platform), 'TypeError')
})
