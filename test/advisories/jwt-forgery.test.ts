import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { JWK } from 'jose'
import t, { type Test } from 'tap'
import { type Answer, call } from '../support/client.ts'
import { startRawUpstream, startTestGateway } from '../support/gateway.ts'
import { startIssuer } from '../support/issuer.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const audience = 'sallyport-demo'
const upstream = await startRawUpstream(t, (socket) => {
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
})
const routes = [{ id: 'any', match: { path: '/*' }, surface: 'platform', upstream: 'platform' }]

type IssuerEntry = Readonly<{ issuer: string; audience: string; jwksUri: string; requireType?: string }>

const startGateway = (t: Test, issuers: readonly IssuerEntry[]) =>
  startTestGateway(t, { world, routes, upstreams: { platform: { url: upstream.url } }, settings: { issuers } })

const entryOf = (issuer: string): IssuerEntry => ({ issuer, audience, jwksUri: `${issuer}/jwks` })

const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const jwkOf = (key: KeyObject, members: JWK): JWK => ({ ...(key.export({ format: 'jwk' }) as JWK), ...members })
const published = [jwkOf(ec.publicKey, { kid: 'ec' }), jwkOf(rsa.publicKey, { kid: 'rsa' })]

const first = await startIssuer(t, () => published)
const second = await startIssuer(t, () => [jwkOf(stranger.publicKey, { kid: 'ec' })])
const gateway = await startGateway(t, [entryOf(first.issuer), { ...entryOf(second.issuer), audience: 'another' }])

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const now = Math.floor(Date.now() / 1000)
const claims = { iss: first.issuer, aud: audience, sub: 'forger', exp: now + 600, iat: now - 1 }
type Members = Readonly<Record<string, unknown>>
const bodyOf = (header: Members, payload: Members = claims): string => `${encode(header)}.${encode(payload)}`

const byEc = (key: KeyObject, input: string): string =>
  sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')
const byRsa = (input: string): string => sign('sha256', Buffer.from(input), rsa.privateKey).toString('base64url')

/** Signed as its header says, by the issuer's own key. */
function genuine(header: Members = {}, payload: Members = claims): string {
  const input = bodyOf({ alg: 'ES256', kid: 'ec', ...header }, payload)
  return `${input}.${byEc(ec.privateKey, input)}`
}

const enter = (jwt: string): Promise<Answer> =>
  call(gateway.public, { path: '/x', headers: { 'x-oauth-access-token': jwt } })

async function expectRefusals(t: Test, tokens: Readonly<Record<string, string>>): Promise<void> {
  const before = upstream.received().join('').length
  for (const [what, jwt] of Object.entries(tokens)) t.equal((await enter(jwt)).status, 401, what)
  t.equal(upstream.received().join('').length, before, 'nothing arrived')
}

t.test('the issuer’s own token is accepted', async (t) => {
  t.equal((await enter(genuine())).status, 200)
  t.equal((await enter(genuine({ typ: 'at+jwt' }))).status, 200)
})

// jsonwebtoken CVE-2022-23540: without a list of algorithms, none was one.
t.test('a token without a signature is refused', async (t) => {
  const cases = ['none', 'None', 'NONE', 'nOnE', '', null, 0, ['none']].map((alg) => [
    `alg ${JSON.stringify(alg)}`,
    `${bodyOf({ alg, kid: 'ec' })}.`,
  ])
  const [header, payload, signature] = genuine().split('.')
  await expectRefusals(t, {
    ...Object.fromEntries(cases),
    'the signature left out': `${header}.${payload}`,
    'an empty signature': `${header}.${payload}.`,
    'no payload': `${header}..${signature}`,
    'a signature of zeros': `${header}.${payload}.${Buffer.alloc(64).toString('base64url')}`,
    'an unsigned one with a signature': `${bodyOf({ alg: 'none' })}.${signature}`,
  })
})

// jsonwebtoken CVE-2022-23541, Apache APISIX CVE-2026-39999: the public key as a shared secret.
t.test('a token signed with a public value is refused', async (t) => {
  const secrets: Readonly<Record<string, string | Buffer>> = {
    'the PEM': rsa.publicKey.export({ format: 'pem', type: 'spki' }),
    'the PEM of PKCS 1': rsa.publicKey.export({ format: 'pem', type: 'pkcs1' }),
    'the DER': rsa.publicKey.export({ format: 'der', type: 'spki' }),
    'the JWK': JSON.stringify(published[1]),
    'the modulus': Buffer.from(String(published[1]?.n), 'base64url'),
    nothing: '',
    'the key id': 'rsa',
  }
  const tokens = Object.entries(secrets).flatMap(([what, secret]) =>
    (['HS256', 'HS384', 'HS512'] as const).map((alg) => {
      const input = bodyOf({ alg, kid: 'rsa' })
      return [
        `${alg} by ${what}`,
        `${input}.${createHmac(`sha${alg.slice(2)}`, secret)
          .update(input)
          .digest('base64url')}`,
      ]
    }),
  )
  await expectRefusals(t, Object.fromEntries(tokens))
})

// node-jose CVE-2018-0114: the token brought the key that it was to be verified with.
t.test('a token that brings its own key, or says where it is, is refused', async (t) => {
  const asked = { first: first.asked.length, second: second.asked.length }
  const own = jwkOf(stranger.publicKey, { kid: 'ec' })
  const headers: Readonly<Record<string, Members>> = {
    jwk: { jwk: own },
    jku: { jku: `${second.issuer}/jwks` },
    x5u: { x5u: `${second.issuer}/certificate` },
    x5c: { x5c: [stranger.publicKey.export({ format: 'der', type: 'spki' }).toString('base64')] },
    'a path for a key id': { kid: '../../../../dev/null' },
    'an address for a key id': { kid: `${second.issuer}/jwks` },
    'no key id': { kid: undefined },
    'a key id that is an object': { kid: { ec: 1 } },
  }
  await expectRefusals(
    t,
    Object.fromEntries(
      Object.entries(headers).map(([what, more]) => {
        const input = bodyOf({ alg: 'ES256', kid: 'ec', ...more })
        return [what, `${input}.${byEc(stranger.privateKey, input)}`]
      }),
    ),
  )
  t.equal(second.asked.length, asked.second, 'no issuer was asked for keys that the token names')
})

t.test(
  'a token under another algorithm’s name, with a critical extension or for another purpose is refused',
  async (t) => {
    const input = bodyOf({ alg: 'ES256', kid: 'rsa' })
    const plain = bodyOf({ alg: 'RS256', kid: 'ec' })
    await expectRefusals(t, {
      'RSA called ES256': `${input}.${byRsa(input)}`,
      'EC called RS256': `${plain}.${byEc(ec.privateKey, plain)}`,
      RS384: genuine({ alg: 'RS384' }),
      ES512: genuine({ alg: 'ES512' }),
      crit: genuine({ crit: ['exp'] }),
      'crit, empty': genuine({ crit: [] }),
      'crit, understood by others': genuine({ crit: ['b64'], b64: true }),
      b64: genuine({ b64: false }),
      'a logout token': genuine({ typ: 'logout+jwt' }),
      'a proof of possession': genuine({ typ: 'dpop+jwt' }),
      'an encrypted one': `${encode({ alg: 'dir', enc: 'A256GCM' })}....`,
      'a compressed one': genuine({ zip: 'DEF', typ: 'JWE' }),
    })
  },
)

t.test('a token of another issuer, audience or time, or without a subject, is refused', async (t) => {
  const under = (payload: Members): string => genuine({}, { ...claims, ...payload })
  await expectRefusals(t, {
    'another issuer’s name': under({ iss: second.issuer }),
    'another issuer’s name and audience': under({ iss: second.issuer, aud: 'another' }),
    'an issuer without trust': under({ iss: 'https://evil.example' }),
    'an issuer with a slash': under({ iss: `${first.issuer}/` }),
    'two issuers': under({ iss: [first.issuer, second.issuer] }),
    'no issuer': under({ iss: undefined }),
    'an issuer that every object has': under({ iss: '__proto__' }),
    'the other issuer’s audience': under({ aud: 'another' }),
    'an audience that only begins so': under({ aud: `${audience}.evil` }),
    'no audience': under({ aud: undefined }),
    'an audience among things': under({ aud: [audience, 1] }),
    expired: under({ exp: now - 3600 }),
    'no expiry': under({ exp: undefined }),
    'an expiry in words': under({ exp: String(now + 600) }),
    'not yet': under({ nbf: now + 3600 }),
    'from the future': under({ iat: now + 3600 }),
    nobody: under({ sub: undefined }),
    'an empty subject': under({ sub: '' }),
    'a subject that is a number': under({ sub: 1 }),
  })
})

// Without its proof such a token is stolen (RFC 9449 7.1, RFC 8705 3). A security event grants no right (RFC 8417 4.5).
t.test('a token that is bound to its sender, or tells of an event, is refused', async (t) => {
  const under = (payload: Members): string => genuine({ typ: 'at+jwt' }, { ...claims, ...payload })
  t.equal((await enter(under({}))).status, 200)
  await expectRefusals(t, {
    'a DPoP key': under({ cnf: { jkt: '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I' } }),
    'a certificate': under({ cnf: { 'x5t#S256': 'bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2' } }),
    'a key in full': under({ cnf: { jwk: published[0] } }),
    'an empty confirmation': under({ cnf: {} }),
    'a confirmation that is null': under({ cnf: null }),
    'a logout': under({ events: { 'http://schemas.openid.net/event/backchannel-logout': {} } }),
    'no events': under({ events: {} }),
    'events that are null': under({ events: null }),
  })
})

t.test('a token without the type that `requireType` demands is refused', async (t) => {
  const strict = await startGateway(t, [{ ...entryOf(first.issuer), requireType: 'at+jwt' }])
  const ask = async (jwt: string): Promise<number> =>
    (await call(strict.public, { path: '/x', headers: { 'x-oauth-access-token': jwt } })).status
  for (const typ of ['at+jwt', 'AT+JWT', 'application/at+jwt', 'Application/AT+JWT'])
    t.equal(await ask(genuine({ typ })), 200, typ)
  // Twice: a token's key is known by then.
  for (const typ of [
    'JWT',
    undefined,
    'application/jwt',
    null,
    ['at+jwt'],
    'at+jwt ',
    'application/application/at+jwt',
    'JWT',
  ])
    t.equal(await ask(genuine({ typ })), 401, JSON.stringify(typ))
})

t.test('the gateway’s own identity header is not a token', async (t) => {
  await world.clearRecorder()
  const answer = await world.call({ path: '/public/x', headers: { 'x-oauth-access-token': world.users.member.jwt } })
  t.equal(answer.status, 200)
  const [arrived] = await world.recorded()
  const [, identity = ''] = arrived?.headers.find(([name]) => name.toLowerCase() === 'x-gateway-identity') ?? []
  t.match(identity, /^eyJ/)
  t.equal((await world.call({ path: '/public/x', headers: { 'x-oauth-access-token': identity } })).status, 401)
  t.equal((await world.call({ path: '/public/x', headers: { authorization: `Bearer ${identity}` } })).status, 401)
  t.equal((await world.call({ path: '/public/x', headers: { 'x-gateway-identity': identity } })).status, 401)
})
