import t from 'tap'
import type { Awaitable } from '../../gateway/base/lib/awaitable.ts'
import { createBoundedMap } from '../../gateway/base/lib/bounded-map.ts'
import type { TrustedIssuer } from '../../gateway/stages/authenticate/claims.ts'
import { createVerifyLogout } from '../../gateway/stages/authenticate/logout-token.ts'
import { createVerify } from '../../gateway/stages/authenticate/verify.ts'
import { createSigner, holdKeySet } from '../support/key-set.ts'

const [first, second] = await Promise.all([createSigner('first'), createSigner('second')])

const trust: TrustedIssuer = {
  issuer: 'https://issuer.example',
  audiences: ['us'],
  carriers: new Set(['header']),
  clockToleranceSeconds: 0,
  linkVerifiedEmail: false,
  trustEmailVerified: false,
  revocation: { longestLifeSeconds: 3_600, logout: { audiences: ['us'], types: ['logout+jwt'] } },
}

const minuteMs = 60_000
const client = '192.0.2.1'

/** A key set that a client has used already, whose last refresh lies a while back. */
async function hold() {
  const held = holdKeySet([first.jwk])
  await held.keys.refresh()
  t.equal(await held.judgeFrom(client, await first.sign()), 'accepted')
  await held.clock.pass(minuteMs)
  held.issuer.fetchedAtMs.length = 0
  return held
}

const floods: readonly (readonly [title: string, address: (count: number) => string])[] = [
  ['of one address', () => '203.0.113.9'],
  ['of a network each', (count) => `2001:db8:${count.toString(16)}::1`],
]

for (const [title, address] of floods) {
  t.test(`unknown keys of strangers, ${title}, spend no fetch of clients after a rotation`, async (t) => {
    const { issuer, clock, judgeFrom, fetches } = await hold()
    const [forged, good] = [await first.sign('nobody'), await second.sign()]
    for (let second = 0; second < 20; second++) {
      t.equal(await judgeFrom(address(second), forged), 'unauthenticated')
      await clock.pass(1_000)
    }
    t.equal(fetches(), 1, 'the flood has one')
    issuer.keys = [second.jwk]
    t.equal(await judgeFrom(address(20), forged), 'unauthenticated')
    t.equal(await judgeFrom(client, good), 'accepted')
    t.equal(fetches(), 2)
  })
}

t.test('strangers make one fetch in 30 s altogether, and an address one in five minutes', async (t) => {
  const { clock, judgeFrom, fetches } = await hold()
  const forged = await first.sign('nobody')
  for (let passed = 0; passed < 60; passed++) {
    for (let count = 0; count < 50; count++) await judgeFrom(`203.0.113.${count}`, forged)
    await clock.pass(1_000)
  }
  t.equal(fetches(), 2)
  const { clock: other, judgeFrom: judgeOther, fetches: fetchesOfOne } = await hold()
  for (let passed = 0; passed < 239; passed++) {
    await judgeOther('203.0.113.9', forged)
    await other.pass(1_000)
  }
  t.equal(fetchesOfOne(), 1, 'so that another stranger finds the next one')
})

t.test('a client that spends its fetch keeps another from its own for no more than 5 s', async (t) => {
  const { issuer, clock, judgeFrom, fetches } = await hold()
  const tenant = '198.51.100.7'
  await judgeFrom(tenant, await first.sign())
  const forged = await first.sign('nobody')
  t.equal(await judgeFrom(tenant, forged), 'unauthenticated')
  issuer.keys = [second.jwk]
  const good = await second.sign()
  t.equal(await judgeFrom(client, good), 'unauthenticated')
  for (let passed = 0; passed < 5; passed++) {
    await clock.pass(1_000)
    await judgeFrom(tenant, forged)
  }
  t.equal(fetches(), 1, 'an address has one in 30 s')
  t.equal(await judgeFrom(client, good), 'accepted')
})

t.test('a refresh that changed nothing allows one fetch more, to clients alone', async (t) => {
  const { issuer, keys, clock, judgeFrom, fetches } = await hold()
  const forged = await first.sign('nobody')
  t.equal(await judgeFrom(client, forged), 'unauthenticated', 'the client has no other fetch for 30 s')
  await clock.pass(1_000)
  await keys.refresh()
  await judgeFrom('203.0.113.9', forged)
  await judgeFrom('203.0.113.10', forged)
  const before = fetches()
  issuer.keys = [second.jwk]
  t.equal(await judgeFrom(client, await second.sign()), 'accepted')
  t.equal(fetches(), before + 1)
  t.equal(await judgeFrom(client, forged), 'unauthenticated')
  t.equal(fetches(), before + 1, 'one, and no more')
})

t.test('a token whose time is over makes no client of a stranger', async (t) => {
  const { keys, clock, judgeFrom, fetches } = await hold()
  const seconds = clock.now().getTime() / 1_000
  const [leaked, other] = ['203.0.113.9', '203.0.113.10']
  keys.noteProven(leaked, seconds - 1)
  const forged = await first.sign('nobody')
  await judgeFrom(other, forged)
  await judgeFrom(leaked, forged)
  t.equal(fetches(), 1, 'it shares the fetch of strangers')
  keys.noteProven(leaked, seconds + 1)
  await judgeFrom(leaked, forged)
  t.equal(fetches(), 2)
})

t.test('JWTs and logout tokens hand on the address that sent them', async (t) => {
  const { issuer, keys, clock, fetches } = await hold()
  const issuers = new Map([[trust.issuer, { trust, keys }]])
  const verify = createVerify({ issuers, verified: createBoundedMap(10), onRead: () => undefined })
  const verifyLogout = createVerifyLogout(issuers, clock.now, () => undefined)
  const seconds = Math.floor(clock.now().getTime() / 1_000)
  const claims = { iss: trust.issuer, aud: 'us', iat: seconds, exp: seconds + 60, sid: 's', jti: 'j' }
  const events = { 'http://schemas.openid.net/event/backchannel-logout': {} }
  const tell = (proof: Awaitable<unknown>): Promise<string> =>
    Promise.resolve(proof).then(
      () => 'accepted',
      (error) => String(error.code),
    )
  const use = async (signer: typeof first, kid: string, from: string): Promise<string> =>
    tell(verify(await signer.sign(kid, claims), 'header', from))
  const logOut = async (signer: typeof first, kid: string, from: string): Promise<string> =>
    tell(verifyLogout(await signer.sign(kid, { ...claims, events }, 'logout+jwt'), from))
  const issuersOwn = '198.51.100.1'
  t.equal(await logOut(first, 'first', issuersOwn), 'accepted')
  t.equal(await use(first, 'first', client), 'accepted')
  issuer.fetchedAtMs.length = 0
  t.equal(await use(first, 'nobody', '203.0.113.9'), 'unauthenticated')
  t.equal(await logOut(first, 'nobody', '203.0.113.9'), 'unauthenticated')
  t.equal(fetches(), 1)
  issuer.keys = [second.jwk]
  t.equal(await logOut(second, 'second', issuersOwn), 'accepted')
  t.equal(await use(second, 'second', client), 'accepted')
})
