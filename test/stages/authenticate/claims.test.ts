import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import t from 'tap'
import type { Directory, NewIdentity, UserRecord } from '../../../gateway/directory/directory.ts'
import { noLogouts } from '../../../gateway/directory/logout.ts'
import { createAuthenticate } from '../../../gateway/stages/authenticate/authenticate.ts'
import {
  type Claims,
  isSameAddress,
  readClaims,
  requireInForce,
  type TrustedIssuer,
} from '../../../gateway/stages/authenticate/claims.ts'
import { boundLogouts } from '../../../gateway/stages/authenticate/event-token.ts'
import type { KeySet } from '../../../gateway/stages/authenticate/jwks/key-set.ts'
import { createVerify } from '../../../gateway/stages/authenticate/verify.ts'
import { holdKeySet } from '../../support/key-set.ts'

const now = 1_800_000_000
const tolerance = 60
const trust: TrustedIssuer = {
  issuer: 'https://issuer.example',
  audiences: ['api', 'web'],
  carriers: new Set(['header']),
  clockToleranceSeconds: tolerance,
  linkVerifiedEmail: false,
  trustEmailVerified: false,
}
const sound = { iss: trust.issuer, aud: 'api', sub: 'a', exp: now + 100 }

/** The claims of a sound token with some of them changed; undefined removes one. */
const read = (changes: Readonly<Record<string, unknown>> = {}, at = now) => {
  const claims = Object.entries({ ...sound, ...changes }).filter(([, value]) => value !== undefined)
  return judge(Object.fromEntries(claims), trust, at)
}

/** Checks claims as the guard does: first their form, then whether they are in force. */
function judge(raw: Readonly<Record<string, unknown>>, issuer: TrustedIssuer, at: number): Claims {
  const claims = readClaims(raw, issuer)
  requireInForce(claims, issuer, at)
  return claims
}

const unauthenticated = { code: 'unauthenticated', status: 401 }

t.test('a token lives until exp and the tolerance have passed, to the second', async (t) => {
  t.ok(read({ exp: now - tolerance + 1 }))
  t.ok(read({ exp: now - tolerance + 0.5 }))
  t.throws(() => read({ exp: now - tolerance }), unauthenticated)
  t.throws(() => read({ exp: now - tolerance - 1 }), unauthenticated)
})

t.test('a token is born at nbf less the tolerance, to the second', async (t) => {
  t.ok(read({ nbf: now + tolerance }))
  t.throws(() => read({ nbf: now + tolerance + 1 }), unauthenticated)
})

t.test('a token issued in the future is refused, but for the tolerance', async (t) => {
  t.ok(read({ iat: now + tolerance }))
  t.throws(() => read({ iat: now + tolerance + 1 }), unauthenticated)
})

t.test('without clock tolerance a token is judged to the second', async (t) => {
  const strict = { ...trust, clockToleranceSeconds: 0 }
  t.ok(judge({ ...sound, exp: now + 1, nbf: now, iat: now }, strict, now))
  t.throws(() => judge({ ...sound, exp: now }, strict, now), unauthenticated)
  t.throws(() => judge({ ...sound, nbf: now + 1 }, strict, now), unauthenticated)
  t.throws(() => judge({ ...sound, iat: now + 1 }, strict, now), unauthenticated)
})

t.test('times are finite numbers that a date can hold', async (t) => {
  const none = [null, '1800000100', true, [now], {}, Number.NaN, Number.POSITIVE_INFINITY, 1e300]
  for (const name of ['exp', 'nbf', 'iat'])
    for (const value of none) t.throws(() => read({ [name]: value }), unauthenticated, `${name} ${String(value)}`)
  t.equal(read({ exp: 8.64e12 }).expiresAt, 8.64e12)
  t.throws(() => read({ exp: -1 }), unauthenticated)
})

t.test('every required claim is required', async (t) => {
  for (const name of ['iss', 'aud', 'sub', 'exp']) t.throws(() => read({ [name]: undefined }), unauthenticated, name)
  t.ok(read({ nbf: undefined, iat: undefined }))
})

t.test('the issuer is compared to the letter', async (t) => {
  for (const iss of [`${trust.issuer}/`, 'HTTPS://issuer.example', ' https://issuer.example', [trust.issuer], null, ''])
    t.throws(() => read({ iss }), unauthenticated, String(iss))
})

t.test('one of the audiences must be named, among strings alone', async (t) => {
  for (const aud of ['api', 'web', ['api'], ['other', 'web']]) t.ok(read({ aud }), String(aud))
  for (const aud of [
    'other',
    'API',
    'api ',
    'ap',
    'api,web',
    '',
    [],
    [['api']],
    ['api', 1],
    ['api', null],
    { api: true },
    1,
  ])
    t.throws(() => read({ aud }), unauthenticated, JSON.stringify(aud))
})

t.test('the subject is a string that says something and that the directory can hold', async (t) => {
  for (const sub of ['a', 'auth0|1', 'ünïcödé', '😀', 'x'.repeat(255)]) t.equal(read({ sub }).subject, sub)
  for (const sub of ['', ' ', '\t', 'a\0', 'a\nb', '\ud800', 'x'.repeat(256), 1, null, true, ['a'], { a: 1 }])
    t.throws(() => read({ sub }), unauthenticated, JSON.stringify(sub))
})

t.test('a malformed name counts as absent, and is not refused', async (t) => {
  for (const value of [undefined, null, '', ' ', 1, ['a'], 'a\0b', '\udfff', 'x'.repeat(256)]) {
    const { givenName, familyName, preferredUsername } = read({
      given_name: value,
      family_name: value,
      preferred_username: value,
    })
    t.same([givenName, familyName, preferredUsername], [null, null, null], JSON.stringify(value))
  }
})

t.test('a malformed address counts as absent', async (t) => {
  t.equal(read({ email: 'a@b.example' }).email, 'a@b.example')
  for (const email of [
    undefined,
    null,
    '',
    'a',
    'a@',
    '@b',
    'a b@c',
    'a@b@c',
    'a@b\n',
    1,
    ['a@b'],
    `${'x'.repeat(250)}@b.example`,
  ])
    t.equal(read({ email }).email, undefined, JSON.stringify(email))
})

t.test('an address is verified only by the literal true', async (t) => {
  t.equal(read({ email_verified: true }).isEmailVerified, true)
  for (const value of [undefined, null, false, 'true', 1, [true]])
    t.equal(read({ email_verified: value }).isEmailVerified, false, JSON.stringify(value))
})

const user: UserRecord = {
  id: 1,
  email: 'a@b.example',
  emailVerified: false,
  username: null,
  firstName: null,
  lastName: null,
  fullName: null,
  userType: 'human',
  currentOrganizationId: null,
  roles: [],
}

/** A gateway that trusts some issuers, each with a key of its own under the same id, and a directory that takes notes. */
async function trustIssuers(settings: Readonly<Record<string, Partial<TrustedIssuer>>>) {
  const created: NewIdentity[] = []
  const asked: string[] = []
  const signers: Record<string, (claims: Readonly<Record<string, unknown>>) => Promise<string>> = {}
  const issuers = new Map<string, { trust: TrustedIssuer; keys: KeySet }>()
  for (const [issuer, own] of Object.entries(settings)) {
    const { publicKey, privateKey } = await generateKeyPair('EdDSA')
    const jwk: JWK = { ...(await exportJWK(publicKey)), kid: 'k' }
    const { keys } = holdKeySet([jwk])
    issuers.set(issuer, { trust: { ...trust, issuer, ...own }, keys })
    signers[issuer] = (claims) =>
      new SignJWT({ ...sound, iss: issuer, ...claims }).setProtectedHeader({ alg: 'EdDSA', kid: 'k' }).sign(privateKey)
  }
  const directory = {
    findByIdentity: async ({ issuer, subject }) => void asked.push(`${issuer} ${subject}`),
    createByIdentity: async (identity) => {
      created.push(identity)
      return user
    },
  } satisfies Pick<Directory, 'findByIdentity' | 'createByIdentity'>
  // The other methods are not the OAuth guard's to call: calling one is a test that fails.
  const authenticate = createAuthenticate({
    directory: directory as Partial<Directory> as Directory,
    logouts: noLogouts,
    verify: createVerify({ issuers, verified: new Map(), onRead: () => {} }),
    now: () => new Date(now * 1000),
  })
  return {
    created,
    asked,
    sign: (issuer: string, claims = {}): Promise<string> =>
      signers[issuer]?.(claims) ?? Promise.reject(new Error(issuer)),
    log: async (jwt: string) =>
      authenticate({ kind: 'oauth', jwt, carrier: 'header' }, { clientAddress: '192.0.2.7', requestId: 'r' }),
  }
}

const one = 'https://one.example'
const two = 'https://two.example'

t.test('each of several issuers is verified with its own keys alone', async (t) => {
  const { sign, log, asked } = await trustIssuers({ [one]: {}, [two]: {} })
  await log(await sign(one))
  await log(await sign(two))
  t.same(asked, [`${one} a`, `${two} a`], 'and a subject is its issuer’s own')
  await t.rejects(log(await sign(one, { iss: two })), unauthenticated)
  await t.rejects(log(await sign(two, { iss: one })), unauthenticated)
  t.equal(asked.length, 2)
})

t.test('each of several issuers has its own audience', async (t) => {
  const { sign, log } = await trustIssuers({ [one]: { audiences: ['first'] }, [two]: { audiences: ['second'] } })
  await log(await sign(one, { aud: 'first' }))
  await t.rejects(log(await sign(one, { aud: 'second' })), unauthenticated)
})

t.test('an unknown issuer is refused, whatever object it is named after', async (t) => {
  const { sign, log, asked } = await trustIssuers({ [one]: {} })
  for (const iss of ['https://three.example', 'constructor', '__proto__', '', 1, null, [one], undefined])
    await t.rejects(log(await sign(one, { iss })), unauthenticated, String(iss))
  t.same(asked, [])
})

t.test('a token whose claims are refused never reaches the directory', async (t) => {
  const { sign, log, asked, created } = await trustIssuers({ [one]: {} })
  await t.rejects(log(await sign(one, { exp: now - 3600 })), unauthenticated)
  await t.rejects(log(await sign(one, { sub: '' })), unauthenticated)
  t.same([asked, created], [[], []])
})

t.test('a first login is linked by e-mail only where the issuer may and the address is verified', async (t) => {
  const { sign, log, created } = await trustIssuers({ [one]: { linkVerifiedEmail: true }, [two]: {} })
  const email = 'a@b.example'
  await log(await sign(one, { email, email_verified: true }))
  await log(await sign(one, { email, email_verified: 'true' }))
  await log(await sign(one, { email }))
  await log(await sign(one, { email_verified: true }))
  await log(await sign(two, { email, email_verified: true }))
  t.same(
    created.map(({ linkByEmail }) => linkByEmail),
    [email, undefined, undefined, undefined, undefined],
  )
})

t.test('a first login without an address gets one of its own that receives no mail', async (t) => {
  const { sign, log, created } = await trustIssuers({ [one]: {}, [two]: {} })
  await log(await sign(one))
  await log(await sign(one, { sub: 'b' }))
  await log(await sign(two))
  const addresses = created.map(({ email }) => email)
  t.equal(new Set(addresses).size, 3)
  for (const address of addresses) t.match(address, /^[0-9a-f]{32}@users\.invalid$/)
})

t.test('a login has the session that the issuer writes where its pointer leads', async (t) => {
  const revocation = { longestLifeSeconds: 3_600 }
  const [subject, email, username] = [['sub'], ['email'], ['preferred_username']]
  const claims = { subject, email, emailVerified: [], names: [], username, sessionId: ['session', 'id'] }
  const sessionOf = (issuer: TrustedIssuer, raw: object) => readClaims({ ...sound, ...raw }, issuer).login?.session
  const raw = { sid: 'usual', session: { id: 'own' } }
  t.equal(sessionOf({ ...trust, revocation }, raw), 'usual')
  t.equal(sessionOf({ ...trust, revocation, claims }, raw), 'own')
  for (const session of [undefined, { id: 7 }, { id: '' }, ['own']])
    t.equal(
      sessionOf({ ...trust, revocation, claims }, { ...raw, session }),
      undefined,
      'and no other claim stands for it',
    )
})

t.test('a logout outlives every JWT that it refuses, by more than the tolerance', async (t) => {
  const longestLifeSeconds = 10_000
  const issuer = { ...trust, revocation: { longestLifeSeconds } }
  const login = { issuer: trust.issuer, subject: 's', session: '' }
  const told = { issuer: trust.issuer, name: 'token', saidAt: now }
  const [logout] = boundLogouts(told, [{ login, longestLifeSeconds, toleranceSeconds: 0 }], now, () => undefined)
  const { at = 0, expiresAt = 0 } = logout ?? {}
  const lives: readonly Readonly<{ iat?: number; exp: number }>[] = [
    { iat: at, exp: at + longestLifeSeconds },
    { iat: at, exp: at + 100 * longestLifeSeconds },
    { iat: at - 1, exp: at + longestLifeSeconds - 1 },
    { exp: at + longestLifeSeconds },
  ]
  for (const life of lives) {
    t.ok(judge({ ...sound, ...life }, issuer, at), 'in force when it comes')
    t.throws(() => judge({ ...sound, ...life }, issuer, expiresAt), unauthenticated, JSON.stringify(life))
  }
})

t.test('addresses are the same without case in ASCII alone', async (t) => {
  t.notOk(isSameAddress('\u212aate@x.example', 'kate@x.example'))
  t.notOk(isSameAddress('ı@x.example', 'I@x.example'))
  t.ok(isSameAddress('KATE@x.example', 'kate@X.EXAMPLE'))
})

t.test('the standard names read alike, pointed at or not', async (t) => {
  const pointed: TrustedIssuer = {
    ...trust,
    claims: {
      subject: ['sub'],
      email: ['email'],
      emailVerified: ['email_verified'],
      names: [['given_name'], ['family_name']],
      username: ['preferred_username'],
      sessionId: ['sid'],
    },
  }
  const revocation = { longestLifeSeconds: 1_000 }
  const names = ['sub', 'email', 'email_verified', 'given_name', 'family_name', 'preferred_username', 'sid']
  const whole = { ...sound, ...Object.fromEntries(names.map((name) => [name, `${name}@x`])), email_verified: true }
  for (const name of [undefined, ...names])
    for (const value of [undefined, null, '', 7, true, 'a@b', {}, []]) {
      const raw = name === undefined ? whole : { ...whole, [name]: value }
      const readBy = (issuer: TrustedIssuer) => {
        try {
          return readClaims(raw, { ...issuer, revocation, trustEmailVerified: true })
        } catch (error) {
          return (error as { exactCause?: unknown }).exactCause
        }
      }
      t.strictSame(readBy(trust), readBy(pointed), `${name}: ${JSON.stringify(value)}`)
    }
})
