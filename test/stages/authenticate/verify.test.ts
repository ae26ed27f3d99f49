import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import t from 'tap'
import { createBoundedMap } from '../../../gateway/base/lib/bounded-map.ts'
import type { Directory, UserRecord } from '../../../gateway/directory/directory.ts'
import { noLogouts } from '../../../gateway/directory/logout.ts'
import { createAuthenticate } from '../../../gateway/stages/authenticate/authenticate.ts'
import type { TrustedIssuer } from '../../../gateway/stages/authenticate/claims.ts'
import { createKeySet, type KeySet, type KeySetOptions } from '../../../gateway/stages/authenticate/jwks/key-set.ts'
import { createVerify, type VerifiedToken } from '../../../gateway/stages/authenticate/verify.ts'

const now = 1_800_000_000

const trust: TrustedIssuer = {
  issuer: 'https://issuer.example',
  audiences: ['api'],
  carriers: new Set(['header']),
  clockToleranceSeconds: 10,
  linkVerifiedEmail: false,
  trustEmailVerified: false,
}

async function createSigner(kid: string) {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwk: JWK = { ...(await exportJWK(publicKey)), kid, alg: 'ES256' }
  const sign = (claims: Readonly<Record<string, unknown>> = {}, header: Readonly<Record<string, unknown>> = {}) =>
    new SignJWT({ iss: trust.issuer, aud: 'api', sub: 'a', exp: now + 100, ...claims })
      .setProtectedHeader({ ...header, alg: 'ES256', kid })
      .sign(privateKey)
  return { jwk, sign }
}

const [first, second] = await Promise.all([createSigner('first'), createSigner('second')])

/** No timer goes off and nothing is stored: each fetch is the test's. */
const composeOptions = (monotonicMs: () => number): KeySetOptions => ({
  issuer: trust.issuer,
  refreshMs: 30_000,
  maxStaleMs: 60_000,
  clock: { now: () => new Date(now * 1000), monotonicMs, after: () => () => undefined },
  store: { load: async () => undefined, save: async () => undefined },
  onEvent: () => undefined,
  signal: new AbortController().signal,
})

/** A verifier of one issuer's tokens; the test sets the published keys and both clocks. */
async function holdVerify(maxEntries = 100) {
  const state = { published: [first.jwk], isDown: false, now, isHeld: false }
  let monotonicMs = 0
  let release: () => void = () => undefined
  const keySet = createKeySet(
    async () => {
      if (state.isDown) throw new TypeError('fetch failed')
      return state.published
    },
    composeOptions(() => monotonicMs),
  )
  await keySet.refresh()
  const lookups = { count: 0 }
  const keys: KeySet = {
    ...keySet,
    findKey: async (header, token) => {
      lookups.count++
      if (state.isHeld) await new Promise<void>((resolve) => (release = resolve))
      return keySet.findKey(header, token)
    },
  }
  const verified = createBoundedMap<VerifiedToken>(maxEntries)
  const reads: string[] = []
  const verify = createVerify({
    issuers: new Map([[trust.issuer, { trust, keys }]]),
    verified,
    onRead: (result) => reads.push(result),
  })
  const user = { id: 1, userType: 'human', roles: [] } as Partial<UserRecord> as UserRecord // nothing else is read
  const directory = { findByIdentity: async () => user } satisfies Pick<Directory, 'findByIdentity'>
  const authenticate = createAuthenticate({
    directory: directory as Partial<Directory> as Directory, // the OAuth guard calls no other method
    verify: async (jwt: string) => verify(jwt),
    logouts: noLogouts,
    now: () => new Date(state.now * 1000),
  })
  return {
    state,
    lookups,
    reads,
    verified,
    verify: async (jwt: string) => verify(jwt),
    /** Publishes other keys and fetches them. */
    rotate: async (...published: readonly JWK[]) => {
      state.published = [...published]
      monotonicMs += 1_000
      await keySet.refresh()
    },
    refresh: keySet.refresh,
    pass: (ms: number) => {
      monotonicMs += ms
    },
    release: () => release(),
    logIn: async (jwt: string) =>
      authenticate({ kind: 'oauth', jwt, carrier: 'header' }, { clientAddress: '192.0.2.7', requestId: 'r' }),
  }
}

const unauthenticated = { code: 'unauthenticated', status: 401 }

t.test('a token is verified once, and then known', async (t) => {
  const { verify, lookups, reads } = await holdVerify()
  const jwt = await first.sign({ email: 'a@b.example' })
  const fresh = await verify(jwt)
  for (let count = 0; count < 100; count++) t.equal(await verify(jwt), fresh)
  t.equal(lookups.count, 1)
  t.same([reads[0], new Set(reads.slice(1))], ['miss', new Set(['hit'])])
  t.match(fresh, { issuer: { trust }, claims: { subject: 'a', email: 'a@b.example' } })
})

t.test('another token of the same subject is verified by itself', async (t) => {
  const { verify, reads } = await holdVerify()
  await verify(await first.sign())
  await verify(await first.sign({ exp: now + 101 }))
  t.same(reads, ['miss', 'miss'])
})

t.test('a key is chosen once for all tokens with its header, for as long as the keys are the same', async (t) => {
  const { verify, rotate, lookups, state, refresh } = await holdVerify()
  for (let count = 0; count < 10; count++) await verify(await first.sign({ count }))
  t.equal(lookups.count, 1)
  state.published = [first.jwk, second.jwk]
  await refresh()
  for (let count = 10; count < 20; count++) await verify(await first.sign({ count }))
  t.equal(lookups.count, 2)
  await verify(await second.sign())
  t.equal(lookups.count, 3)
  await rotate(second.jwk)
  await t.rejects(verify(await first.sign({ count: 20 })), unauthenticated, 'its key was withdrawn')
  await rotate({ ...second.jwk, kid: 'first' })
  await t.rejects(verify(await first.sign({ count: 21 })), unauthenticated, 'another key has its name')
})

t.test('a known header proves nothing', async (t) => {
  const { verify, verified } = await holdVerify()
  await verify(await first.sign())
  const [header, , signature] = (await first.sign({ sub: 'b' })).split('.')
  const claims = Buffer.from(JSON.stringify({ iss: trust.issuer, aud: 'api', sub: 'c', exp: now + 100 }))
  await t.rejects(verify(`${header}.${claims.toString('base64url')}.${signature}`), unauthenticated)
  const [, payload] = (await first.sign({ sub: 'd' })).split('.')
  await t.rejects(verify(`${header}.${payload}.${signature}`), unauthenticated)
  t.equal(verified.size(), 1)
})

t.test('tokens whose signatures are checked together have each its own verdict', async (t) => {
  const { verify, lookups } = await holdVerify()
  await verify(await first.sign())
  const tokens = await Promise.all(Array.from({ length: 40 }, (_, index) => first.sign({ sub: `s-${index}` })))
  const sent = tokens.map((jwt, index) => {
    const other = tokens[(index + 1) % tokens.length] ?? ''
    return index % 3 === 0 ? jwt.slice(0, jwt.lastIndexOf('.')) + other.slice(other.lastIndexOf('.')) : jwt
  })
  const verdicts = await Promise.allSettled(sent.map((jwt) => verify(jwt)))
  t.equal(lookups.count, 1)
  for (const [index, verdict] of verdicts.entries())
    if (index % 3 === 0) t.match(verdict, { status: 'rejected', reason: unauthenticated })
    else t.match(verdict, { status: 'fulfilled', value: { claims: { subject: `s-${index}` } } })
})

t.test('a header is known only once a signature has held', async (t) => {
  const { verify, lookups } = await holdVerify()
  const [header, payload] = (await first.sign()).split('.')
  const [, , foreign] = (await first.sign({ sub: 'b' })).split('.')
  for (let count = 0; count < 3; count++) await t.rejects(verify(`${header}.${payload}.${foreign}`), unauthenticated)
  t.equal(lookups.count, 3)
})

t.test('a known header is of no use once the keys are too old', async (t) => {
  const { verify, state, pass } = await holdVerify()
  await verify(await first.sign())
  state.isDown = true
  pass(60_001)
  await t.rejects(verify(await first.sign({ sub: 'b' })), { code: 'issuer_unavailable', status: 503 })
})

t.test('a header that differs in each token needs a lookup each time, and the last are remembered', async (t) => {
  const { verify, lookups } = await holdVerify()
  for (let count = 0; count < 20; count++) await verify(await first.sign({ count }, { nonce: count }))
  t.equal(lookups.count, 20)
  await verify(await first.sign({ sub: 'b' }, { nonce: 19 }))
  t.equal(lookups.count, 20, 'the last are known')
  await verify(await first.sign({ sub: 'b' }, { nonce: 0 }))
  t.equal(lookups.count, 21, 'the first are forgotten')
})

t.test('a known token with one character changed is refused', async (t) => {
  const { verify } = await holdVerify()
  const jwt = await first.sign()
  await verify(jwt)
  const [header = '', payload = '', signature = ''] = jwt.split('.')
  const flip = (text: string): string => (text.startsWith('A') ? 'B' : 'A') + text.slice(1)
  const other = Buffer.from(JSON.stringify({ iss: trust.issuer, aud: 'api', sub: 'b', exp: now + 100 }))
  for (const changed of [
    `${header}.${payload}.${flip(signature)}`,
    `${header}.${other.toString('base64url')}.${signature}`,
    `${flip(header)}.${payload}.${signature}`,
    `${jwt}A`,
    `${jwt} `,
    jwt.slice(0, -1),
    `${header}.${payload}.`,
  ])
    await t.rejects(verify(changed), unauthenticated, changed.slice(-20))
})

t.test('once the keys have been fetched anew a token is verified again, and then known again', async (t) => {
  const { verify, rotate, lookups } = await holdVerify()
  const jwt = await first.sign()
  await verify(jwt)
  await rotate(first.jwk, second.jwk)
  await verify(jwt)
  await verify(jwt)
  t.equal(lookups.count, 2)
})

t.test('a token whose key was withdrawn is refused at its next use', async (t) => {
  const { verify, rotate } = await holdVerify()
  const jwt = await first.sign()
  await verify(jwt)
  await rotate(second.jwk)
  await t.rejects(verify(jwt), unauthenticated)
  await rotate(second.jwk, { ...second.jwk, kid: 'first' })
  await t.rejects(verify(jwt), unauthenticated, 'nor does another key under its name help')
})

t.test('a refresh that fails makes no known token unknown', async (t) => {
  const { verify, refresh, state, lookups, pass } = await holdVerify()
  const jwt = await first.sign()
  await verify(jwt)
  state.isDown = true
  for (let count = 0; count < 6; count++) {
    pass(10_000)
    t.notOk(await refresh())
    await verify(jwt)
  }
  t.equal(lookups.count, 1)
})

t.test('a known token is refused once the keys are too old, and accepted again after a refresh', async (t) => {
  const { verify, state, pass, refresh } = await holdVerify()
  const jwt = await first.sign()
  await verify(jwt)
  state.isDown = true
  pass(60_001)
  await t.rejects(verify(jwt), { code: 'issuer_unavailable', status: 503 })
  state.isDown = false
  await refresh()
  t.ok(await verify(jwt))
})

t.test('keys that change while a token is verified make it one to verify again', async (t) => {
  const { verify, rotate, state, release, lookups, reads } = await holdVerify()
  const jwt = await first.sign()
  state.isHeld = true
  const verification = verify(jwt)
  await until(() => lookups.count === 1)
  await rotate(first.jwk, second.jwk)
  release()
  await verification
  state.isHeld = false
  await verify(jwt)
  t.same(reads, ['miss', 'miss'])
})

t.test('a token whose verification fetched the first keys is not cached under unknown keys', async (t) => {
  let isDown = false
  let monotonicMs = 0
  const load = async () => {
    if (isDown) throw new TypeError('fetch failed')
    return [first.jwk]
  }
  const keys = createKeySet(
    load,
    composeOptions(() => monotonicMs),
  )
  const issuers = new Map([[trust.issuer, { trust, keys }]])
  const verify = createVerify({ issuers, verified: new Map(), onRead: () => undefined })
  const jwt = await first.sign()
  await verify(jwt)
  isDown = true
  monotonicMs += 60_001
  await t.rejects(async () => verify(jwt), { code: 'issuer_unavailable' })
})

t.test('concurrent verifications of one token share', async (t) => {
  const { verify, lookups, reads } = await holdVerify()
  const [jwt, other] = [await first.sign(), await first.sign({ sub: 'b' })]
  const tokens = await Promise.all(
    Array.from({ length: 1_000 }, (_, index) => (index % 2 === 0 ? verify(jwt) : verify(other))),
  )
  t.equal(lookups.count, 2)
  t.same(
    tokens.slice(0, 2).map(({ claims }) => claims.subject),
    ['a', 'b'],
  )
  t.equal(reads.filter((result) => result === 'coalesced').length, 998)
})

t.test('a refusal goes to each request that shared it, and is not kept', async (t) => {
  const { verify, lookups, verified, reads } = await holdVerify()
  const jwt = await second.sign()
  const verifications = Array.from({ length: 10 }, () => verify(jwt))
  for (const verification of verifications) await t.rejects(verification, unauthenticated)
  t.equal(lookups.count, 1)
  await t.rejects(verify(jwt), unauthenticated)
  t.equal(lookups.count, 2)
  t.equal(verified.size(), 0)
  t.same(reads.at(-1), 'miss')
})

t.test('a malformed token, or one of an unknown issuer, leaves nothing behind and asks for no key', async (t) => {
  const { verify, lookups, verified } = await holdVerify()
  for (let index = 0; index < 1_000; index++) await t.rejects(verify(`no.token.${index}`), unauthenticated)
  await t.rejects(verify(await first.sign({ iss: 'https://other.example' })), unauthenticated)
  await t.rejects(verify('x'.repeat(10_000)), unauthenticated)
  t.same([lookups.count, verified.size()], [0, 0])
})

t.test('a sound signature over bad claims leaves nothing behind', async (t) => {
  const { verify, verified } = await holdVerify()
  for (const claims of [{ sub: '' }, { aud: 'other' }, { exp: undefined }])
    await t.rejects(verify(await first.sign(claims)), unauthenticated)
  t.equal(verified.size(), 0)
})

t.test('a failure to ask the issuer is not a refusal, and is not kept as one', async (t) => {
  const { verify, state, rotate } = await holdVerify()
  const jwt = await second.sign()
  state.isDown = true
  await t.rejects(async () => verify(jwt), { code: 'issuer_unavailable' })
  state.isDown = false
  await rotate(first.jwk, second.jwk)
  t.ok(await verify(jwt))
})

t.test('a token that was verified before is refused at its first use after its end', async (t) => {
  const { logIn, state, lookups } = await holdVerify()
  const jwt = await first.sign()
  await logIn(jwt)
  state.now = now + 109
  await logIn(jwt)
  state.now = now + 110
  await t.rejects(logIn(jwt), unauthenticated)
  t.equal(lookups.count, 1, 'without another look at its signature')
})

t.test('a token that came before its time is refused, and accepted in it', async (t) => {
  for (const name of ['nbf', 'iat']) {
    const { logIn, state } = await holdVerify()
    const jwt = await first.sign({ [name]: now + 11 })
    await t.rejects(logIn(jwt), unauthenticated)
    state.now = now + 1
    t.equal((await logIn(jwt)).user.id, 1, name)
    state.now = now
    await t.rejects(logIn(jwt), unauthenticated, 'a clock that is set back counts as well')
  }
})

t.test('no more tokens are kept than were allowed', async (t) => {
  const { verify, verified } = await holdVerify(10)
  for (let index = 0; index < 30; index++) await verify(await first.sign({ sub: `s-${index}` }))
  t.equal(verified.size(), 10)
})

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}
