import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { GatewayError } from '../../gateway/base/errors/gateway-error.ts'
import { TimeSlicer } from '../../gateway/base/lib/time-slicer.ts'
import type { Change } from '../../gateway/directory/change.ts'
import { createChangeQueue } from '../../gateway/directory/change-queue.ts'
import { type DirectoryFacts, nameIdentity, type TokenRecord } from '../../gateway/directory/directory.ts'
import { type Login, type Logout, noLogouts } from '../../gateway/directory/logout.ts'
import { followLogouts, type LogoutPage } from '../../gateway/directory/logouts/follow-logouts.ts'
import type { Consultation } from '../../gateway/stages/consult/compose.ts'
import { JudgeQueue } from '../../gateway/stages/recheck/judge-queue.ts'
import { OpaqueTokens } from '../../gateway/stages/recheck/opaque-tokens.ts'
import { OpenExchange } from '../../gateway/stages/recheck/open-exchange.ts'
import { OutsideDecisions } from '../../gateway/stages/recheck/outside-decisions.ts'
import { OpenExchanges } from '../../gateway/stages/recheck/recheck.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { until } from '../support/gateway.ts'
import { noConsultation, openAs, openWith, roles, route, TestProof, tokenOf, userOf } from '../support/open-exchange.ts'
import { createRecheckFixture } from '../support/recheck-fixture.ts'

// A change that was heard must count within a second, in whatever order and number others come. A tenant may cause as many
// of its own as it likes, and a slow database may answer late with what it knew before.

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const table = compileRoutes([route])

const factsOf = (...tokens: readonly TokenRecord[]): DirectoryFacts => ({
  users: new Map(),
  tokens: new Map(tokens.map((token) => [token.id, token])),
  findResource: () => undefined,
  agents: new Map(),
  clusters: new Map(),
})

type Read = Readonly<{ since: number; answer: (...logouts: readonly Logout[]) => void }>

/** A follower of logouts whose reads the test answers, and whose listener proves at each moment that it hears all. */
async function createLogoutsFixture(t: Test) {
  const state = { ms: 1_000, reads: [] as Read[], known: [] as Logout[] }
  const follower = followLogouts({
    readSince: (since) =>
      new Promise<LogoutPage>((resolve) => {
        state.reads.push({ since, answer: (...logouts) => resolve({ horizon: 1, logouts }) })
      }),
    knownAt: () => state.ms,
    monotonicMs: () => state.ms,
    isCovered: () => false,
    onLogouts: (logouts) => state.known.push(...logouts),
    onFailed: () => undefined,
  })
  t.teardown(follower.stop)
  const nextRead = async (): Promise<Read> => {
    await until(() => state.reads.length > 0, 'a read')
    const [read] = state.reads.splice(0, 1)
    if (!read) throw new Error('no read')
    return read
  }
  const askNow = () => {
    const asked = { isAnswered: false }
    const answered = async (): Promise<void> => {
      await follower.requireFresh()
      asked.isAnswered = true
    }
    answered().catch(t.threw)
    return asked
  }
  for (let page = 0; page < 2; page++) (await nextRead()).answer()
  await nextTurn()
  t.equal(follower.requireFresh(), undefined, 'the first read is done')
  return { state, follower, nextRead, askNow }
}

const logout: Logout = { issuer: 'i', subject: 's', session: '', at: 9, expiresAt: 9_999 }

t.test('a logout that is told while another is read counts as unread until a read of its own', async (t) => {
  const { state, follower, nextRead, askNow } = await createLogoutsFixture(t)
  follower.look('changes')
  const first = await nextRead()
  state.ms += 10
  follower.look('changes')
  state.ms += 490
  first.answer()
  const second = await nextRead()
  state.ms += 500
  const asked = askNow()
  await nextTurn()
  t.equal(asked.isAnswered, false, 'what was told is not known')
  second.answer(logout)
  await until(() => asked.isAnswered, 'the answer')
  t.same(state.known, [logout])
})

t.test('a slow read answers no question that came when it was old', async (t) => {
  const { state, follower, nextRead, askNow } = await createLogoutsFixture(t)
  follower.look('changes')
  const slow = await nextRead()
  state.ms += 10
  follower.look('changes')
  state.ms += 1_000
  const asked = askNow()
  slow.answer()
  const next = await nextRead()
  t.equal(asked.isAnswered, false, 'its facts are of a second ago')
  next.answer(logout)
  await until(() => asked.isAnswered, 'the answer')
  t.same(state.known, [logout])
})

t.test('a wish to read all again, during such a read, is not lost', async (t) => {
  const { follower, nextRead } = await createLogoutsFixture(t)
  follower.look('start')
  const whole = await nextRead()
  t.equal(whole.since, 0)
  follower.look('start')
  whole.answer()
  t.equal((await nextRead()).since, 0)
})

t.test('changes of its own prolong no exchange that could not be judged', async (t) => {
  const ended: string[] = []
  const state = { ms: 1_000 }
  const recheck = new OpenExchanges({
    ...noConsultation,
    endAtExpiry: 'none',
    maxLifeMs: 3_600_000,
    onUnknown: 'keep',
    unknownMs: 300_000,
    hasEnded: noLogouts.hasEnded,
    logoutsUnreadSinceMs: noLogouts.unreadSinceMs,
    policy: () => ({ table, roles }),
    readFacts: () => new Promise<never>(() => undefined),
    knownAt: () => state.ms,
    now: () => new Date(0),
    monotonicMs: () => state.ms,
    processId: 1,
    onRound: () => undefined,
    onEnded: ({ code }) => ended.push(code),
    onUnread: () => undefined,
  })
  t.teardown(recheck.stop)
  recheck.open(openWith(tokenOf(1), table, { reset: () => undefined }), recheck.countHeard())
  for (let count = 0; count < 8; count++) {
    recheck.hear({ kind: 'token', id: 1 })
    await new Promise((resolve) => setTimeout(resolve, 80))
    state.ms += 200
  }
  t.same(ended, ['access_unverified'])
})

t.test('a tenant that names its own exchanges without an end leaves others their places', async (t) => {
  let reads = 0
  let isJudged = false
  const others = tokenOf(2)
  const queue: JudgeQueue = new JudgeQueue(
    {
      readFacts: async () => {
        reads += 1
        return factsOf(tokenOf(1), others)
      },
      countHeard: () => 0,
      knownAt: () => performance.now(),
      policy: () => ({ table, roles }),
      hasEnded: noLogouts.hasEnded,
      now: () => new Date(0),
      monotonicMs: () => performance.now(),
      onUnread: () => undefined,
    },
    {
      end: () => t.fail('an exchange ended'),
      keep: (open) => {
        if (open.organizationId === 2) isJudged = true
        else queue.add(open)
      },
    },
  )
  const opened = (record: TokenRecord): OpenExchange => new OpenExchange(openWith(record, table, {}), 0, 0, 0)
  for (let count = 0; count < 1_500; count++) {
    const open = opened(tokenOf(1))
    open.name(1)
    queue.add(open)
  }
  queue.add(opened(others))
  queue.read()
  await until(() => isJudged || reads > 5, 'some reads')
  queue.stop()
  t.ok(isJudged)
})

t.test('more changes than can wait become one that stands for any, and a proof still waits for it', async (t) => {
  const taken: Change[] = []
  const queue = createChangeQueue(
    (change) => taken.push(change),
    () => t.fail('a change was lost'),
  )
  const many = Array.from({ length: 300_000 }, (_, id): Change => ({ kind: 'user', id }))
  const token: Change = { kind: 'logout-token', token: 'x' }
  queue.add([...many, token])
  const proven = queue.passed().then(() => [...taken])
  const heard = await proven
  t.ok(heard.length < many.length, 'few were handed on')
  t.ok(heard.some(({ kind }) => kind === 'everything'))
  t.same(heard.at(-1), token, 'a logout of another replica is kept')
})

t.test('a burst of any length is worked off: what waits is not moved for each item', async (t) => {
  const items = 2_000_000
  let done = 0
  const bursts = new TimeSlicer<number>(() => {
    done += 1
  })
  t.teardown(() => bursts.clear())
  for (let item = 0; item < items; item++) bursts.add(item)
  await until(() => done === items, 'the whole burst, which took minutes with Array.prototype.shift')
  t.equal(bursts.size, 0)
})

const about: Consultation = {
  ...{ groups: [{ pdp: 'one', body: 'q', places: [0] }], count: 1, owner: 'organization 1', tags: [] },
  expiresAtMs: undefined,
}

const asksAbout = (): OpenExchange =>
  ({
    consultation: about,
    openedAtMs: -59_000,
    isNamed: false,
    settlePending: () => undefined,
  }) as Partial<OpenExchange> as OpenExchange // no more of it is used

/** With `onUnknown: end`, which leaves an exchange less than a second without an answer. */
function createOutsideFixture(t: Test, answer: () => Promise<boolean>) {
  const state = { ms: 1_000, asked: 0, inFlight: 0, most: 0 }
  const outside = new OutsideDecisions(
    {
      consultAgain: async () => {
        state.asked += 1
        state.inFlight += 1
        state.most = Math.max(state.most, state.inFlight)
        await nextTurn()
        state.inFlight -= 1
        return answer()
      },
      recheckMsOf: () => 60_000,
      shareOf: () => places,
      monotonicMs: () => state.ms,
      longestUnknownMs: 930,
      isAwaited: () => false,
    },
    () => t.fail('an exchange ended'),
  )
  return { state, outside }
}

const places = 4

t.test('an exchange whose question failed once is asked about again before its time is over', async (t) => {
  let isBroken = true
  const { state, outside } = createOutsideFixture(t, async () => {
    if (isBroken) throw new Error('no answer')
    return true
  })
  const open = asksAbout()
  outside.look(open, state.ms)
  for (let turn = 0; turn < 3; turn++) await nextTurn()
  isBroken = false
  state.ms += 500
  outside.look(open, state.ms)
  t.equal(state.asked, 2)
  for (let turn = 0; turn < 3; turn++) await nextTurn()
  state.ms += 1_000
  outside.look(open, state.ms)
})

t.test('an exchange whose issuer failed once is asked about again before its time is over', async (t) => {
  const state = { ms: 1_000, asked: 0 }
  const opaque = new OpaqueTokens(
    { now: () => new Date(0), monotonicMs: () => state.ms, longestUnknownMs: 930, knownAt: (readAtMs) => readAtMs },
    () => t.fail('an exchange ended'),
  )
  const askAgain = async () => {
    state.asked += 1
    throw new GatewayError('issuer_unavailable')
  }
  const proof = { kind: 'oauth', expiresAtMs: 9_999, answer: { askedAtMs: 0, freshMs: 1_000, askAgain } }
  const open = { proof } as unknown as OpenExchange // no more of it is used
  opaque.look(open, state.ms)
  await nextTurn()
  state.ms += 500
  opaque.look(open, state.ms)
  t.equal(state.asked, 2)
})

t.test(
  'thousands of exchanges that are due at once are asked about in turn, and none ends for want of a place',
  async (t) => {
    const { state, outside } = createOutsideFixture(t, async () => true)
    const all = Array.from({ length: 2_000 }, asksAbout)
    for (const open of all) outside.look(open, state.ms)
    await until(() => state.asked === all.length, 'all questions')
    t.equal(state.most, places / 2, 'requests keep the other half')
    state.ms += 900
    for (const open of all) outside.look(open, state.ms)
    t.equal(state.asked, all.length, 'and each has its answer')
  },
)

t.test(
  'an open login ends while a logout that was heard cannot be read, after the time that unknown rights are borne',
  async (t) => {
    const login = {} as Partial<Login> as Login // only whether there is one
    for (const [onUnknown, boundMs] of [
      ['end', 930],
      ['keep', 5_000],
    ] as const) {
      const clock = { skippedMs: 0, unreadSinceMs: Number.POSITIVE_INFINITY }
      const monotonicMs = (): number => performance.now() + clock.skippedMs
      const options = { monotonicMs, logoutsUnreadSinceMs: () => clock.unreadSinceMs }
      const { recheck, open, state } = createRecheckFixture(t, { onUnknown, unknownMs: 5_000 }, options)
      const user = userOf(1)
      const proof = new TestProof(1, { login })
      state.users.set(nameIdentity(proof), user)
      const caller = { principal: proof.judge(user), organizationId: 1 }
      const byLogin = recheck.open(openAs({ caller }, state.table, {}), recheck.countHeard())
      const { entry: byToken } = open(2)
      clock.unreadSinceMs = monotonicMs()
      clock.skippedMs = boundMs - 700
      await sleep(150)
      t.equal(byLogin.end, undefined, onUnknown)
      clock.skippedMs = boundMs
      await until(() => byLogin.end !== undefined, `${onUnknown}: the end`)
      t.equal(byLogin.end?.code, 'access_unverified')
      t.equal(byToken.end, undefined, 'no logout concerns an API token')
    }
  },
)

t.test('a reload ends what it permits no more, while the facts of other exchanges cannot be read', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const { entry } = open(1)
  open(2)
  state.read = () => new Promise(() => undefined)
  recheck.hear({ kind: 'token', id: 2 })
  await until(() => state.reads.length > 0, 'a read that hangs')
  state.table = compileRoutes([{ ...route, destination: { kind: 'upstream', name: 'other' } }])
  recheck.recheckAll()
  await until(() => entry.end !== undefined, 'the end')
  t.equal(entry.end?.code, 'access_revoked')
})
