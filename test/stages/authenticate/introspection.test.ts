import t from 'tap'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import type { Carrier } from '../../../gateway/stages/authenticate/credential.ts'
import { createIntrospect } from '../../../gateway/stages/authenticate/introspection/introspect.ts'
import type { IntrospectionAnswer } from '../../../gateway/stages/authenticate/introspection/question.ts'
import type { KeySet } from '../../../gateway/stages/authenticate/jwks/key-set.ts'
import type { VerifiedToken } from '../../../gateway/stages/authenticate/verify.ts'
import { createSimulatedClock } from '../../support/simulated-clock.ts'

const trust = {
  issuer: 'https://issuer.example',
  audiences: ['api'],
  carriers: new Set(['header', 'bearer'] as const),
  clockToleranceSeconds: 10,
  linkVerifiedEmail: false,
  trustEmailVerified: false,
}

/** Asks an issuer in the test's hands, on a clock of the test's. */
function hold({ cacheMs = 10_000, maxEntries = 100 } = {}) {
  const clock = createSimulatedClock()
  const nowSeconds = clock.now().getTime() / 1000
  const active = {
    active: true,
    iss: trust.issuer,
    aud: 'api',
    sub: 'a',
    token_type: 'Bearer',
    exp: nowSeconds + 3_600,
  }
  const state = { answer: active as IntrospectionAnswer | Error, asked: [] as string[] }
  const reads: string[] = []
  const outcomes: string[] = []
  const { introspect, countHeld } = createIntrospect(
    { trust, keys: {} as KeySet }, // an opaque token has no key
    {
      ask: async (token) => {
        state.asked.push(token)
        if (state.answer instanceof Error) throw state.answer
        return state.answer
      },
      lane: { run: async (_owner, ask) => ask(1_000) },
      cacheMs,
      maxEntries,
      requireTokenType: true,
      attempts: undefined,
      clock,
      onRead: (result) => reads.push(result),
      onOutcome: (outcome) => outcomes.push(outcome),
    },
  )
  const ask = async (token = 'token', carrier: Carrier = 'header') =>
    introspect(`hash of ${token}`, token, carrier, '192.0.2.1')
  const verdict = (token?: string, carrier?: Carrier): Promise<string> =>
    ask(token, carrier).then(
      () => 'accepted',
      (error: GatewayError) => error.exactCause,
    )
  return { clock, nowSeconds, active, state, reads, outcomes, ask, verdict, countHeld }
}

t.test('an answer counts for cacheMs from its question, and then the issuer is asked again', async (t) => {
  const { clock, state, verdict, reads } = hold()
  t.equal(await verdict(), 'accepted')
  state.answer = { active: false }
  await clock.pass(9_999)
  t.equal(await verdict(), 'accepted')
  await clock.pass(1)
  t.equal(await verdict(), 'token_inactive')
  t.equal(state.asked.length, 2)
  t.same(reads, ['miss', 'hit', 'miss'])
})

t.test('an answer never counts beyond its expiry, whatever cacheMs says', async (t) => {
  const { clock, nowSeconds, active, state, verdict } = hold({ cacheMs: 3_600_000 })
  state.answer = { ...active, exp: nowSeconds + 60 }
  t.equal(await verdict(), 'accepted')
  state.answer = { active: false }
  await clock.pass(59_999)
  t.equal(await verdict(), 'accepted')
  await clock.pass(1)
  t.equal(await verdict(), 'token_inactive')
})

t.test('a refusal is held for 5 s, with its cause, and not longer than cacheMs', async (t) => {
  for (const [cacheMs, heldMs] of [
    [60_000, 5_000],
    [1_000, 1_000],
  ] as const) {
    const { clock, active, state, verdict, reads } = hold({ cacheMs })
    state.answer = { ...active, aud: 'other' }
    for (let count = 0; count < 3; count++) t.equal(await verdict(), 'wrong_audience')
    t.same([state.asked.length, reads], [1, ['miss', 'negative_hit', 'negative_hit']])
    state.answer = active
    await clock.pass(heldMs)
    t.equal(await verdict(), 'accepted')
  }
})

t.test('a failure is neither held nor a refusal', async (t) => {
  const { active, state, verdict, outcomes } = hold()
  state.answer = new GatewayError('issuer_unavailable')
  t.equal(await verdict(), 'issuer_unavailable')
  state.answer = active
  t.equal(await verdict(), 'accepted')
  t.same(outcomes, ['failed', 'active'])
})

t.test('guesses push out no token in use', async (t) => {
  const { state, verdict, countHeld } = hold({ maxEntries: 10 })
  t.equal(await verdict('known'), 'accepted')
  state.answer = { active: false }
  for (let count = 0; count < 100; count++) t.equal(await verdict(`guess ${count}`), 'token_inactive')
  t.equal(await verdict('known'), 'accepted')
  t.equal(countHeld(), 11)
})

t.test('requests of one moment share a question, each in its own carrier', async (t) => {
  const { state, verdict } = hold()
  const verdicts = await Promise.all([verdict(), verdict('token', 'bearer'), verdict('token', 'subprotocol')])
  t.same(verdicts, ['accepted', 'accepted', 'carrier_not_allowed'])
  t.same(state.asked, ['token'])
  t.equal(await verdict('token', 'cookie:c'), 'carrier_not_allowed', 'although it is held')
})

t.test('nothing that can be printed has the token', async (t) => {
  const { ask } = hold()
  const { inspect } = await import('node:util')
  const token: VerifiedToken = await ask('secret-of-the-token')
  t.notMatch(inspect(token, { depth: 9, showHidden: true }) + JSON.stringify(token), /secret-of-the-token/)
})
