import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import t from 'tap'
import { call } from '../support/client.ts'
import { startTestGateway } from '../support/gateway.ts'
import { startIssuer } from '../support/issuer.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

// A token in a carrier that its issuer did not open reaches further than its operator knows: a page, a log or a proxy
// may send it there.

const world = await startTestWorld(t)
const { member } = world.users
const { robot } = world.serviceAccounts

const audience = 'sallyport-demo'
const { publicKey, privateKey } = await generateKeyPair('ES256')
const jwk: JWK = { ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }
const other = await startIssuer(t, () => [jwk])

const sign = (claims: Readonly<Record<string, unknown>> = {}): Promise<string> =>
  new SignJWT({ iss: other.issuer, aud: audience, sub: 'carried', exp: Date.now() / 1000 + 600, ...claims })
    .setProtectedHeader({ alg: 'ES256', kid: 'k' })
    .sign(privateKey)

/** The world's issuer keeps the default, the other one has these carriers. */
const settingsWith = (tokens: Readonly<Record<string, unknown>>) => ({
  issuers: [
    { issuer: world.oidc.issuer, audience },
    { issuer: other.issuer, audience, jwksUri: `${other.issuer}/jwks`, tokens },
  ],
})

const gateway = await startTestGateway(t, { world, settings: settingsWith({ bearer: true }) })
const ask = (headers: Record<string, string | string[]>) => call(gateway.public, { path: '/users/me', headers })

t.test('a JWT that is cached through its header is 401 as Bearer where its issuer has that off', async (t) => {
  for (let round = 0; round < 3; round++) {
    t.equal((await ask(oauth(member))).status, 200, 'in its header')
    const refused = await ask(bearer(member.jwt))
    t.match([refused.status, refused.json().error.code], [401, 'unauthenticated'], 'as Bearer')
  }
})

t.test('a JWT as Bearer enters where its issuer allows it, and API tokens beside it', async (t) => {
  const jwt = await sign()
  t.match((await ask(bearer(jwt))).json(), { data: { currentAccessToken: { type: 'oauth', abilities: ['*'] } } })
  t.equal((await ask({ authorization: `BEARER  ${jwt}` })).status, 200, 'the scheme as always')
  t.equal((await ask(oauth({ jwt }))).status, 200, 'its header too')
  t.match((await ask(bearer(robot.apiKey))).json(), { data: { id: robot.id } })
  t.equal((await ask(oauth({ jwt: robot.apiKey }))).status, 401, 'no API token in the header of JWTs')
})

t.test('a JWT as Bearer beside another credential is 400, good or bad', async (t) => {
  const jwt = await sign()
  for (const [first, second] of [
    [jwt, jwt],
    [jwt, member.jwt],
    ['oat_x', jwt],
    [jwt, 'x'],
  ] as const) {
    const refused = await ask({ ...oauth({ jwt: first }), ...bearer(second) })
    t.match([refused.status, refused.json().error.code], [400, 'ambiguous_credentials'])
  }
  t.equal((await ask({ authorization: [`Bearer ${jwt}`, `Bearer ${jwt}`] })).status, 401, 'on two lines')
})

t.test('a JWT as Bearer is verified like any other, and creates no user before', async (t) => {
  const jwt = await sign({ sub: 'forged', exp: 1 })
  t.equal((await ask(bearer(jwt))).status, 401, 'expired')
  t.equal((await ask(bearer(await sign({ aud: 'other' })))).status, 401, 'another audience')
  t.equal((await ask(bearer(`${(await sign()).slice(0, -4)}AAAA`))).status, 401, 'another signature')
  for (const text of ['', 'x', 'eyJ', 'OAT_x', ' oat_x', 'eyJ.eyJ.', '.'.repeat(100)])
    t.equal((await ask({ authorization: `Bearer ${text}` })).status, 401, text)
})

t.test('a JWT in the OAuth header is 401 where its issuer has that off', async (t) => {
  const closed = await startTestGateway(t, { world, settings: settingsWith({ header: false, bearer: true }) })
  const jwt = await sign()
  const status = async (headers: Record<string, string>) =>
    (await call(closed.public, { path: '/users/me', headers })).status
  t.equal(await status(oauth({ jwt })), 401)
  t.equal(await status(bearer(jwt)), 200)
  t.equal(await status(oauth({ jwt })), 401, 'although it is cached now')
  t.equal(await status(oauth(member)), 200, 'the other issuer keeps its own')
})

t.test('by default a JWT as Bearer is 401', async (t) => {
  const plain = await startTestGateway(t, { world, settings: { issuers: settingsWith({}).issuers } })
  t.equal((await call(plain.public, { path: '/users/me', headers: bearer(await sign()) })).status, 401)
})
