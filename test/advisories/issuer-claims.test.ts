import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { checkIssuers } from '../../gateway/run/boot/check-issuers.ts'
import { listIdentityIssuers } from '../../gateway/run/boot/issuer-trust.ts'
import { compileDirectoryRules } from '../../gateway/stages/authenticate/directory-rules.ts'
import { call } from '../support/client.ts'
import { startTestGateway, writeConfiguration } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { startIssuer } from '../support/issuer.ts'
import { populate } from '../support/population.ts'
import { oauth, startTestWorld } from '../support/world.ts'

// An issuer signs tokens of many purposes by one key, for people and for programs. Without `aud` and `sub`, other claims
// must tell the access token of a user from all of these.

const world = await startTestWorld(t)
const { publicKey, privateKey } = await generateKeyPair('ES256')
const jwk: JWK = { ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }

type Members = Readonly<Record<string, unknown>>

/** A gateway that trusts one issuer by these settings, and what its tokens get there. */
async function trust(t: Test, settings: Members) {
  const { issuer } = await startIssuer(t, () => [jwk])
  const issuers = [{ issuer, jwksUri: `${issuer}/jwks`, clockToleranceSeconds: 0, ...settings }]
  const gateway = await startTestGateway(t, { world, settings: { issuers } })
  const sign = (claims: Members): Promise<string> =>
    new SignJWT({ iss: issuer, exp: Date.now() / 1000 + 600, ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'k' })
      .sign(privateKey)
  const enter = async (claims: Members) =>
    call(gateway.public, { path: '/users/me', headers: oauth({ jwt: await sign(claims) }) })
  return { status: async (claims: Members) => (await enter(claims)).status, enter }
}

t.test('an audience is named by client or scope, and never by none', async (t) => {
  const byClient = await trust(t, { audience: { client_id: ['web', 'app'] } })
  t.equal(await byClient.status({ sub: 'a', client_id: 'web' }), 200)
  t.equal(await byClient.status({ sub: 'a', client_id: 'app', aud: 'https://other.example' }), 200)
  for (const claims of [
    {},
    { client_id: 'other' },
    { client_id: ['web'] },
    { azp: 'web' },
    { aud: 'web' },
    { client_id: '' },
  ])
    t.equal(await byClient.status({ sub: 'a', ...claims }), 401, JSON.stringify(claims))
  const byScope = await trust(t, { audience: { scope: 'api:use' } })
  for (const claims of [{ scope: 'openid api:use' }, { scp: ['api:use'] }, { scope: ['x', 'api:use'] }])
    t.equal(await byScope.status({ sub: 'a', ...claims }), 200, JSON.stringify(claims))
  for (const claims of [{ scope: 'api:used' }, { scope: '' }, { scp: [['api:use']] }, { scope: 'x', scp: 'api:use' }])
    t.equal(await byScope.status({ sub: 'a', ...claims }), 401, JSON.stringify(claims))
})

t.test('ID, refresh and logout tokens do not pass for access tokens', async (t) => {
  const { status } = await trust(t, { audience: { azp: 'web' } })
  const access = { sub: 'a', azp: 'web', scope: 'openid', typ: 'Bearer', aud: 'account' }
  t.equal(await status(access), 200, 'an access token of Keycloak')
  const others: Readonly<Record<string, Members>> = {
    'an ID token with a nonce': { nonce: 'n' },
    'an ID token with the hash of its access token': { at_hash: 'h' },
    'an ID token with the hash of its code': { c_hash: 'h' },
    'an ID token by its audience': { aud: 'web' },
    'an ID token by one of its audiences': { aud: ['account', 'web'] },
    'an ID token of Keycloak': { typ: 'ID' },
    'a refresh token of Keycloak': { typ: 'Refresh' },
    'an offline token of Keycloak': { typ: 'Offline' },
    'a logout token of Keycloak': { typ: 'Logout' },
    'a type that is not a text': { typ: ['Bearer'] },
    'an ID token of Cognito': { token_use: 'id' },
    'a logout token': { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } },
    'a token that is bound to its sender': { cnf: { jkt: 'x' } },
  }
  for (const [what, claims] of Object.entries(others)) t.equal(await status({ ...access, ...claims }), 401, what)
})

const idTokens: Readonly<Record<string, Members>> = {
  'an ID token of Keycloak': { typ: 'ID' },
  'an ID token of Keycloak in other case': { typ: 'id' },
  'an ID token of Cognito': { token_use: 'id' },
  'an ID token beside an access token': { nonce: 'n', at_hash: 'h' },
  'an ID token beside a code': { nonce: 'n', c_hash: 'h' },
}

const neverAccess: Readonly<Record<string, Members>> = {
  'a refresh token of Keycloak': { typ: 'Refresh' },
  'an offline token of Keycloak': { typ: 'Offline' },
  'a logout token of Keycloak': { typ: 'Logout' },
  'a refresh token in other case': { typ: 'REFRESH' },
  'a refresh token by its use': { token_use: 'refresh' },
  'a logout token': { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } },
  'events that are null': { events: null },
}

// With `aud` these marks were not looked at, so the refresh token of an issuer that names the API in it gave access.
t.test('a token that says that it is not an access token is refused, whatever claim names the audience', async (t) => {
  for (const [audience, named] of [
    ['web', { aud: 'web' }],
    [{ azp: 'web' }, { azp: 'web' }],
    [{ client_id: 'web' }, { client_id: 'web' }],
    [{ scope: 'api' }, { scope: 'api' }],
  ] as const) {
    const usual = await trust(t, { audience })
    const lenient = await trust(t, { audience, acceptIdTokens: true })
    const access = { sub: 'a', ...named }
    const mode = JSON.stringify(audience)
    for (const { status } of [usual, lenient]) t.equal(await status({ ...access, typ: 'Bearer' }), 200, mode)
    for (const [what, claims] of Object.entries(idTokens)) {
      t.equal(await usual.status({ ...access, ...claims }), 401, `${what}, ${mode}`)
      t.equal(await lenient.status({ ...access, ...claims }), 200, `${what}, ${mode} with acceptIdTokens`)
    }
    for (const [what, claims] of Object.entries(neverAccess))
      for (const { status } of [usual, lenient])
        t.equal(await status({ ...access, ...claims }), 401, `${what}, ${mode}`)
    const both = { typ: 'ID', token_use: 'refresh' }
    t.equal(await lenient.status({ ...access, ...both }), 401, `one of two marks is always refused, ${mode}`)
  }
})

t.test('a JWT is as long as its issuer may write it, 16 KiB where nothing is said', async (t) => {
  for (const [settings, fits, tooLong] of [
    [{}, 11_000, 12_500],
    [{ maxTokenBytes: 4_096 }, 2_000, 3_000],
    // Its head would be too large before its token is.
    [{ maxTokenBytes: 24_576 }, 17_000, undefined],
  ] as const) {
    const { status } = await trust(t, { audience: 'web', ...settings })
    const groups = (bytes: number) => ({ sub: 'a', aud: 'web', groups: ['x'.repeat(bytes)] })
    t.equal(await status(groups(fits)), 200, `${fits} ${JSON.stringify(settings)}`)
    if (tooLong !== undefined) t.equal(await status(groups(tooLong)), 401, `${tooLong} ${JSON.stringify(settings)}`)
  }
})

t.test('one mark of an ID token that access tokens may have too refuses none', async (t) => {
  const { status } = await trust(t, { audience: 'web' })
  for (const claims of [{ nonce: 'n' }, { token_use: 'access' }, { typ: 'JWT' }, { typ: 'at+jwt' }])
    t.equal(await status({ sub: 'a', aud: 'web', ...claims }), 200, JSON.stringify(claims))
})

t.test('a client’s own token never meets a user, even with an equal subject', async (t) => {
  const { enter } = await trust(t, { audience: 'api', linkVerifiedEmail: true, separateClients: true })
  const idOf = async (claims: Members): Promise<number> => (await enter({ aud: 'api', ...claims })).json().data.id
  const user = await idOf({ sub: 'same', azp: 'web', email: 'same@x.example', email_verified: true })
  for (const name of ['client_id', 'azp', 'cid', 'appid']) {
    const client = await idOf({ sub: 'same', [name]: 'same', email: 'same@x.example', email_verified: true })
    t.not(client, user, name)
    t.equal(await idOf({ sub: 'same', [name]: 'same' }), client, `${name}: one account for the client`)
  }
  t.equal(await idOf({ sub: 'same', client_id: 'web' }), user, 'the user is who it was')
})

t.test('a client’s own token verifies no address, so no user of that address becomes the client', async (t) => {
  const { enter } = await trust(t, { audience: 'api', linkVerifiedEmail: true, separateClients: true })
  const address = { aud: 'api', email: 'prey@x.example', email_verified: true }
  const idOf = async (claims: Members): Promise<number> => (await enter({ ...address, ...claims })).json().data.id
  const client = await idOf({ sub: 'hunter', client_id: 'hunter' })
  t.equal(await idOf({ sub: 'hunter', client_id: 'hunter' }), client, 'a second login changes nothing')
  const user = await idOf({ sub: 'prey', azp: 'web' })
  t.not(user, client)
  t.equal(await idOf({ sub: 'prey-elsewhere', azp: 'web' }), user, 'while a user’s own does verify')
})

t.test('with aud and sub a client keeps the account of its subject, and with other claims it does not', async (t) => {
  for (const [index, settings] of [{}, { claims: { email: '/mail' } }].entries()) {
    const { enter } = await trust(t, { audience: 'api', linkVerifiedEmail: true, ...settings })
    const email = `robot-${index}@x.example`
    const address = { email, mail: email, email_verified: true }
    const own = { aud: 'api', sub: 'robot', client_id: 'robot', azp: 'robot' }
    const user = (await enter({ aud: 'api', sub: 'robot', ...address })).json().data
    t.match((await enter(own)).json().data, { id: user.id, email })
    const linked = (await enter({ ...own, sub: 'web', azp: 'web', ...address })).json().data
    t.equal(linked.id, user.id, 'the verified address of a client links')
  }
  const other = await trust(t, { audience: { client_id: ['robot', 'web'] } })
  const same = (await other.enter({ sub: 'robot', client_id: 'web' })).json().data
  t.not((await other.enter({ sub: 'robot', client_id: 'robot' })).json().data.id, same.id)
  const asked = await trust(t, { audience: { client_id: ['robot', 'web'] }, separateClients: false })
  const one = (await asked.enter({ sub: 'robot', client_id: 'web' })).json().data
  t.equal((await asked.enter({ sub: 'robot', client_id: 'robot' })).json().data.id, one.id)
})

t.test('a client’s own token is told by its subject, whatever claim names the user', async (t) => {
  const { enter } = await trust(t, { audience: 'api', claims: { subject: '/uid' } })
  const idOf = async (claims: Members): Promise<number> => (await enter({ aud: 'api', ...claims })).json().data.id
  const user = await idOf({ uid: 'victim', sub: '1', azp: 'web' })
  t.not(await idOf({ uid: 'victim', sub: 'web', azp: 'web' }), user, 'a client that wears the claim of a user')
  t.not(await idOf({ uid: 'victim', azp: 'victim' }), user)
})

t.test('only the literal true verifies an address, wherever it stands', async (t) => {
  const email = 'verified@x.example'
  const { enter } = await trust(t, {
    audience: 'api',
    linkVerifiedEmail: true,
    claims: { email: '/profile/mail', emailVerified: '/profile/isVerified' },
  })
  const idOf = async (sub: string, isVerified: unknown): Promise<number> =>
    (await enter({ aud: 'api', sub, email, email_verified: true, profile: { mail: email, isVerified } })).json().data.id
  const owner = await idOf('owner', true)
  for (const [index, value] of ['true', 1, [true], null, 'yes'].entries())
    t.not(await idOf(`stranger-${index}`, value), owner, JSON.stringify(value))
  t.equal(await idOf('other-login', true), owner, 'and the literal true does')
})

t.test('claims are found where the issuer writes them, and nowhere else', async (t) => {
  const { enter } = await trust(t, {
    audience: 'api',
    claims: {
      subject: '/https:~1~1x.example~1id',
      names: ['/name/0', '/name/1'],
      username: '/a~1b/~01',
      email: '/contact/mail',
    },
  })
  const claims = {
    'https://x.example/id': 'found',
    name: ['Ada', 'Lovelace'],
    'a/b': { '~1': 'ada' },
    contact: { mail: 'ada@x.example' },
    aud: 'api',
  }
  const expected = { firstName: 'Ada', lastName: 'Lovelace', username: 'ada', email: 'ada@x.example' }
  t.match((await enter(claims)).json().data, expected)
  for (const name of ['https://x.example/id'])
    t.equal((await enter({ ...claims, [name]: undefined, sub: 'a' })).status, 401)
})

t.test('an operator names clients only of issuers that separate them', async (t) => {
  const issuers = [
    { issuer: 'https://a.example', audience: 'api' },
    { issuer: 'https://b.example', audience: ['api'], separateClients: true },
    { issuer: 'https://c.example', audience: { azp: 'web' } },
  ]
  const configuration = loadConfiguration(writeConfiguration(t, { settings: { issuers } }), {})
  t.same(
    [...listIdentityIssuers(configuration.issuers)],
    [
      'https://a.example',
      ...['https://b.example', 'https://b.example#client'],
      ...['https://c.example', 'https://c.example#client'],
    ],
  )
})

t.test('a key of an object grants nothing where its value denies it', async (t) => {
  const read = compileDirectoryRules('https://id.example', [
    { claim: '/organization', matches: '{organization}', role: 'org-member' },
    { claim: '/roles', matches: 'platform-admin', platformRole: 'admin' },
    { claim: '/roles', matches: 'importer', userType: 'client-managed' },
  ])
  const all = (value: unknown) =>
    read({ organization: { acme: value }, roles: { 'platform-admin': value, importer: value } })
  const nothing = { userType: 'human', platformRoles: [], memberships: [] }
  for (const value of [false, null, 0, 1, '', 'false', 'no', 'true']) t.same(all(value), nothing, JSON.stringify(value))
  const everything = { userType: 'client-managed', platformRoles: ['admin'], memberships: [{ value: 'acme' }] }
  for (const value of [true, {}, { id: 'x' }, []]) t.match(all(value), everything, JSON.stringify(value))
})

t.test('a subject that passes from person to person is refused at the start', async (t) => {
  const check = (claims: Members): void => {
    const issuers = [{ issuer: 'https://login.example', audience: 'api', claims }]
    checkIssuers(loadConfiguration(writeConfiguration(t, { settings: { issuers } }), {}))
  }
  for (const subject of [
    '/email',
    '/preferred_username',
    '/upn',
    '/unique_name',
    '/cognito:username',
    '/profile/e-mail',
    '/user/emails/0',
    '/http:~1~1schemas.xmlsoap.org~1ws~12005~105~1identity~1claims~1emailaddress',
    '/http:~1~1schemas.xmlsoap.org~1ws~12005~105~1identity~1claims~1upn',
  ])
    t.throws(
      () => check({ subject }),
      /claims\.subject of https:\/\/login\.example is an e-mail address or name/,
      subject,
    )
  t.throws(() => check({ subject: '/contact', email: '/contact' }), /claims\.subject/, 'by the other settings')
  t.throws(() => check({ subject: '/handle', username: '/handle' }), /claims\.subject/)
  for (const subject of ['/sub', '/oid', '/uid', '/https:~1~1x.example~1id']) check({ subject })
  t.throws(() => check({ subject: 'sub' }), /must be a JSON Pointer, such as \/sub/)
  t.throws(() => check({ subject: '/a~2' }), /must be a JSON Pointer/)
})

t.test('mapped scopes bound a JWT, in all that it reaches', async (t) => {
  const scopes = {
    read: ['datasets:read'],
    tokens: ['tokens:manage'],
    switch: ['datasets:write'],
    full: ['*'],
    openid: [],
  }
  const { issuer } = await startIssuer(t, () => [jwk])
  const upstream = await startHttpUpstream(t, (_request, response) => response.end('{}'))
  const issuers = [{ issuer, audience: 'a', jwksUri: `${issuer}/jwks`, scopes }]
  const gateway = await startTestGateway(t, { world, settings: { issuers }, upstreams: { platform: upstream } })
  const sign = (claims: Members): Promise<string> =>
    new SignJWT({ iss: issuer, aud: 'a', exp: Date.now() / 1000 + 600, ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'k' })
      .sign(privateKey)
  const { acme } = world.organizations
  const ask = async (claims: Members, path: string, method = 'GET', body?: string) => {
    const headers = {
      ...oauth({ jwt: await sign({ sub: 'owner', ...claims }) }),
      ...(path.startsWith('/organizations') ? {} : { 'x-organization-id': String(acme.id) }),
      ...(body && { 'content-type': 'application/json' }),
    }
    return call(gateway.public, { method, path, headers, ...(body && { body }) })
  }
  const { assign } = await populate(t, world)
  const first = await call(gateway.public, { path: '/users/me', headers: oauth({ jwt: await sign({ sub: 'owner' }) }) })
  await assign(first.json().data.id, acme.id, 'org-owner')
  for (const claims of [{ scope: 'openid read' }, { scp: ['read'] }, { scope: 'full' }])
    t.equal((await ask(claims, '/datasets')).status, 200, JSON.stringify(claims))
  for (const claims of [{}, { scope: 'openid' }, { scope: 'READ' }, { scope: ['x'], scp: 'read' }, { scope: 'tokens' }])
    t.equal((await ask(claims, '/datasets')).status, 403, JSON.stringify(claims))
  const me = (await ask({ scope: 'read' }, '/users/me/abilities')).json()
  t.same(me.data.abilities, ['datasets:read'], 'as its owner sees')
  t.same((await ask({ scope: 'read' }, '/users/me')).json().data.currentAccessToken.abilities, ['datasets:read'])
  const choose = `/organizations/${acme.id}/switch`
  t.equal((await ask({ scope: 'read' }, choose, 'POST')).status, 403, 'a reader switches no organization')
  t.equal((await ask({ scope: 'read switch' }, choose, 'POST')).status, 200)
  const path = `/organizations/${acme.id}/users/${world.serviceAccounts.robot.id}/tokens`
  const mint = (scope: string, wanted: string) => ask({ scope }, path, 'POST', JSON.stringify({ scope: wanted }))
  t.equal((await mint('tokens read', 'api-key')).status, 403, 'no token outlives the scopes')
  t.equal((await mint('full', 'api-key')).status, 201)
})
