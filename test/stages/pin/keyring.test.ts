import { decodeProtectedHeader } from 'jose'
import t from 'tap'
import type { OrganizationRole, Roles } from '../../../gateway/policy/role.ts'
import { type Caller, decide, enforce, type Permit } from '../../../gateway/stages/authorize/decide.ts'
import type { Upstream } from '../../../gateway/stages/locate/upstream.ts'
import { createKeyring } from '../../../gateway/stages/pin/keyring.ts'
import { createPin } from '../../../gateway/stages/pin/pin.ts'
import { readSigningKeys, type SigningKey } from '../../../gateway/stages/pin/signing-keys.ts'
import type { RouteMatch } from '../../../gateway/stages/route/table.ts'
import { generatePem } from '../../../gateway/tools/cli/keys.ts'
import { meaningsOf } from '../../support/meanings.ts'

/** One second into a day; the starts of keys count from here. */
const startMs = Date.parse('2030-01-01T00:00:01.000Z')

/** A key that signs from so many seconds after the start; without a number, from the beginning. */
async function makeKey(fromSeconds?: number): Promise<SigningKey> {
  const [key] = await readSigningKeys(generatePem('EdDSA'), 'EdDSA')
  if (!key) throw new Error('no key')
  return { ...key, signsFromMs: fromSeconds === undefined ? 0 : startMs + fromSeconds * 1_000 }
}

/** A clock that a test turns, in seconds from the start. */
function holdClock() {
  let seconds = 0
  return {
    now: () => new Date(startMs + seconds * 1_000),
    turnTo: (to: number) => {
      seconds = to
    },
  }
}

type Ring = ReturnType<typeof createKeyring>
const kidsOf = (keys: readonly SigningKey[]) => keys.map(({ kid }) => kid)
const publishedOf = (ring: Ring) => ring.published().keys.map(({ kid }) => kid)

t.test('the first of several keys without a start signs, and all are published in their order', async (t) => {
  const keys = [await makeKey(), await makeKey()]
  const ring = createKeyring(keys, holdClock().now)
  t.equal(ring.signing().kid, keys[0]?.kid)
  t.same(publishedOf(ring), kidsOf(keys))
  t.notOk(
    ring.published().keys.some((key) => 'd' in key),
    'nothing private',
  )
})

t.test('the key with the latest start in the past signs, in any order of the keys and without a reload', async (t) => {
  const [ever, soon, late] = [await makeKey(), await makeKey(10), await makeKey(20)]
  for (const order of [
    [ever, soon, late],
    [late, soon, ever],
    [soon, ever, late],
  ]) {
    const clock = holdClock()
    const ring = createKeyring(order, clock.now)
    for (const [at, expected] of [
      [0, ever],
      [9.999, ever],
      [10, soon],
      [19.999, soon],
      [20, late],
      [1_000_000, late],
    ] as const) {
      clock.turnTo(at)
      t.equal(ring.signing().kid, expected.kid, `at ${at}`)
      t.same(publishedOf(ring).sort(), kidsOf(order).sort(), 'all are published, before their start and after')
    }
  }
})

t.test('the first of several keys with the same start signs', async (t) => {
  const keys = [await makeKey(-5), await makeKey(-5), await makeKey()]
  t.equal(createKeyring(keys, holdClock().now).signing().kid, keys[0]?.kid)
})

t.test('a clock that is set back before every start changes nothing, and brings no withdrawn key back', async (t) => {
  const clock = holdClock()
  const [old, key, next] = [await makeKey(-6), await makeKey(-5), await makeKey(10)]
  const ring = createKeyring([old], clock.now)
  ring.replace([key, next])
  clock.turnTo(-100)
  t.equal(ring.signing().kid, key.kid)
})

t.test('keys of which none signs yet, and one key twice, are refused whole', async (t) => {
  const clock = holdClock()
  const [ever, future] = [await makeKey(), await makeKey(1)]
  t.throws(() => createKeyring([future], clock.now), { message: /^no key may sign yet/ })
  t.throws(() => createKeyring([], clock.now), { message: /^no key may sign yet/ })
  t.throws(() => createKeyring([ever, { ...ever, signsFromMs: 5 }], clock.now), { message: /^a key is listed twice/ })
  const ring = createKeyring([ever], clock.now)
  t.throws(() => ring.replace([future]))
  t.throws(() => ring.replace([future, future, ever]))
  t.equal(ring.signing().kid, ever.kid)
  t.same(publishedOf(ring), [ever.kid])
})

t.test('a withdrawn key signs no more at once, and stays published until its last header is dead', async (t) => {
  const clock = holdClock()
  const [old, fresh] = [await makeKey(), await makeKey()]
  const ring = createKeyring([old], clock.now)
  clock.turnTo(100)
  ring.replace([fresh])
  t.equal(ring.signing().kid, fresh.kid)
  for (const at of [100, 130, 165]) {
    clock.turnTo(at)
    t.same(publishedOf(ring), [fresh.kid, old.kid], `at ${at}`)
  }
  clock.turnTo(165.2)
  t.same(publishedOf(ring), [fresh.kid])
})

t.test('a withdrawn key is published for a minute after it last signed, not after it was withdrawn', async (t) => {
  const clock = holdClock()
  const [old, fresh, never] = [await makeKey(), await makeKey(10), await makeKey(-1_000)]
  const ring = createKeyring([old, fresh], clock.now)
  clock.turnTo(9)
  ring.signing()
  clock.turnTo(40)
  ring.replace([fresh])
  t.same(publishedOf(ring), [fresh.kid, old.kid])
  clock.turnTo(75)
  t.same(publishedOf(ring), [fresh.kid], '65 s after 9')
  ring.replace([fresh, never])
  ring.replace([fresh])
  t.same(publishedOf(ring), [fresh.kid], 'a key that never signed leaves at once')
})

t.test('a key that comes back is published once', async (t) => {
  const clock = holdClock()
  const [old, fresh] = [await makeKey(), await makeKey()]
  const ring = createKeyring([old], clock.now)
  ring.replace([fresh])
  ring.replace([fresh, old])
  t.same(publishedOf(ring), [fresh.kid, old.kid])
})

const highest: OrganizationRole = { slug: 'high', name: 'high', description: null, rank: 1, abilities: new Set() }
const noRoles: Roles = {
  organization: new Map(),
  highest,
  platform: new Map(),
  tokenScopes: new Map(),
  meanings: meaningsOf(highest),
}

/** A permit of a caller without an organization. */
function permitOf(userId: number): Permit {
  const match: RouteMatch = {
    route: {
      id: 'r',
      source: 'routes.yaml:1',
      host: undefined,
      path: '/x',
      methods: new Set(['GET']),
      surface: 'platform',
      stream: undefined,
      isPublic: false,
      destination: { kind: 'upstream', name: 'up' },
      rewrite: undefined,
      role: undefined,
      ability: undefined,
      organizationParam: undefined,
      hostLabel: undefined,
      resource: undefined,
      unguarded: new Map(),
      questions: [],
      isWebSocket: false,
      isKeptAlive: true,
      rateLimit: undefined,
      takesEncodedSlashes: false,
      bodyLimitBytes: undefined,
      headLimits: {},
      timeouts: {},
    },
    target: { method: 'GET', path: '/x', search: '', segments: ['x'], hasEncodedSlash: false },
    params: new Map(),
    rest: undefined,
    hostLabel: undefined,
  }
  const user: Caller['principal']['user'] = {
    id: userId,
    email: 'a@example.com',
    emailVerified: true,
    username: null,
    firstName: null,
    lastName: null,
    fullName: null,
    userType: 'human',
    currentOrganizationId: null,
    roles: [],
  }
  const principal = { user, credential: { kind: 'oauth', expiresAt: new Date(0) } } as const
  return enforce(decide(match, { principal, organization: undefined, resource: undefined }, noRoles))
}

const upstream: Upstream = {
  name: 'up',
  origin: 'http://up',
  path: '/x',
  host: undefined,
  forwardsCredentials: false,
  passedOverrides: new Set(),
  cookies: 'forward',
  answers: { passedCommands: new Set(), cache: 'private' },
  isBound: false,
  isIsolated: false,
  timeouts: { connectMs: 1, firstByteMs: 1, idleMs: 1, streamIdleMs: 1 },
  bodyLimitBytes: 1,
}

t.test('a header is handed out again for a few seconds, but never past its key', async (t) => {
  const clock = holdClock()
  const [old, fresh] = [await makeKey(), await makeKey()]
  const ring = createKeyring([old], clock.now)
  const pin = createPin({ issuer: 'sallyport', signingKey: ring.signing, now: clock.now })
  const permit = permitOf(1)
  const sign = async (): Promise<string> => (await pin(permit, upstream)).headers[1] ?? ''
  const before = await sign()
  clock.turnTo(1.1)
  t.equal(await sign(), before, 'the same again')
  ring.replace([fresh])
  const after = await sign()
  t.equal(decodeProtectedHeader(after).kid, fresh.kid, 'signed anew, by the key that is there')
  t.equal(await sign(), after)
})

t.test(
  'a header is handed out for no longer than a withdrawn key allows for, however requests are spaced',
  async (t) => {
    const clock = holdClock()
    const ring = createKeyring([await makeKey()], clock.now)
    const permit = permitOf(1)
    for (let gap = 0.5; gap < 6; gap += 0.1) {
      clock.turnTo(0)
      const pin = createPin({ issuer: 'sallyport', signingKey: ring.signing, now: clock.now })
      for (let at = 0; at < 20; at += gap) {
        clock.turnTo(at)
        const [, jws = ''] = (await pin(permit, upstream)).headers
        const { iat } = JSON.parse(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString())
        const ageSeconds = clock.now().getTime() / 1_000 - iat
        // Up to a second more, since iat is a whole one.
        if (ageSeconds > 5.1 + 1) t.fail(`${ageSeconds} s old, with a request each ${gap} s`)
      }
    }
  },
)

t.test('a header that is bound is signed for each request, and says which', async (t) => {
  const clock = holdClock()
  const ring = createKeyring([await makeKey()], clock.now)
  const pin = createPin({ issuer: 'sallyport', signingKey: ring.signing, now: clock.now })
  const permit = permitOf(1)
  const claims = async (isBound: boolean) => {
    const [, jws = ''] = (await pin(permit, { ...upstream, isBound })).headers
    return JSON.parse(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString())
  }
  const [bound, free] = [await claims(true), await claims(false)]
  t.match(bound, { htm: 'GET', htu: String })
  t.notOk('htm' in free || 'htu' in free)
  clock.turnTo(2)
  t.equal((await claims(true)).iat, bound.iat + 2, 'none is handed out again')
  t.equal((await claims(false)).iat, free.iat, 'as others are')
})

t.test('a key whose start comes takes over from cached headers as well', async (t) => {
  const clock = holdClock()
  const [old, fresh] = [await makeKey(), await makeKey(1)]
  const ring = createKeyring([old, fresh], clock.now)
  const pin = createPin({ issuer: 'sallyport', signingKey: ring.signing, now: clock.now })
  const kid = async () => decodeProtectedHeader((await pin(permitOf(1), upstream)).headers[1] ?? '').kid
  t.equal(await kid(), old.kid)
  clock.turnTo(1)
  t.equal(await kid(), fresh.kid)
})
