import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { hearFaults } from '../../gateway/base/fault/guarded.ts'
import type { Login, Logout } from '../../gateway/directory/logout.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { openLogouts } from '../../gateway/run/boot/logouts.ts'
import type { OpenExchange } from '../../gateway/stages/recheck/open-exchange.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { until } from '../support/gateway.ts'
import { openAs, openWith, route, TestProof, tokenOf, userOf } from '../support/open-exchange.ts'
import { createRecheckFixture } from '../support/recheck-fixture.ts'

// A change that comes while something else is under way: a client has left, or a handshake or a question waits. Another
// tenant may have a crowd, a callback may throw, and a clock may run ahead for a while.

/** A busy machine may take longer than the second in which an exchange that a change names must be judged. */
const slowly = { monotonicMs: () => performance.now() / 20 }

t.test('a request that its client left leaves nothing that waits for a verdict', async (t) => {
  const { recheck, state } = createRecheckFixture(t)
  state.tokens.set(1, tokenOf(1))
  const heard = recheck.countHeard()
  recheck.hear({ kind: 'token', id: 1 })
  const opening = openWith(tokenOf(1), state.table, {})
  const hasEnded: Exchange['onEnd'] = (listener, target) => listener(false, target as never) // the listener's own
  const open = recheck.open({ ...opening, exchange: { ...opening.exchange, onEnd: hasEnded } }, heard)
  t.ok(open.isNamed)
  let isOver = false
  recheck.confirm(open).then(() => {
    isOver = true
  }, t.threw)
  await new Promise((resolve) => setImmediate(resolve))
  t.ok(isOver)
})

const socketRoute = { ...route, isWebSocket: true }

const switching = { isHandshake: true, hasStarted: false, status: 0 }

for (const [name, exchange, opened, expected] of [
  ['an unanswered handshake', switching, socketRoute, 'route_not_found'],
  ['a handshake whose head is not written', switching, socketRoute, 'route_changed'],
  ['a WebSocket', { isHandshake: true, status: 101 }, socketRoute, 'route_not_found'],
  ['a handshake that was answered otherwise', { isHandshake: true, status: 403 }, socketRoute, undefined],
  ['a request without a handshake', { hasStarted: false, status: 0 }, socketRoute, undefined],
  ['a handshake that was a request like any other', switching, route, undefined],
] as const)
  t.test(`a route that takes WebSockets no more ${expected ? 'ends' : 'leaves'} ${name}`, async (t) => {
    const { recheck, open, state } = createRecheckFixture(t)
    state.table = compileRoutes([opened])
    const { entry } = open(1, recheck.countHeard(), false, exchange)
    if (expected !== 'route_changed') entry.noteForwarded()
    const { policyReads } = state
    state.table = compileRoutes([route])
    recheck.recheckAll()
    const isKept = (): boolean => state.policyReads > policyReads && entry.queue === 'none' && !entry.isStale
    await until(() => entry.end !== undefined || isKept(), 'the verdict')
    t.equal(entry.end?.refusal.exactCause, expected)
  })

t.test('a request waits for the answer of its decision point, whatever is judged meanwhile', async (t) => {
  let answer: ((isYes: boolean) => void) | undefined
  const consultAgain = (): Promise<boolean> =>
    new Promise((resolve) => {
      answer = resolve
    })
  const { recheck, open, state } = createRecheckFixture(t, {}, { ...slowly, consultAgain })
  const heard = recheck.countHeard()
  recheck.hear({ kind: 'token', id: 1 })
  const { entry } = open(1, heard)
  state.table = compileRoutes([
    { ...route, questions: [{ pdp: 'one', action: 'read', about: { type: 'r', from: 'route' } }] },
  ])
  let isConfirmed = false
  const confirmed = recheck.confirm(entry).then(() => {
    isConfirmed = true
  })
  await until(() => answer !== undefined, 'the question')
  const reads = state.reads.length
  recheck.hear({ kind: 'everything' })
  await until(() => state.reads.length > reads && entry.queue === 'none' && !entry.isStale, 'another verdict')
  t.equal(isConfirmed, false)
  answer?.(false)
  await confirmed
  t.equal(entry.end?.refusal.exactCause, 'decision_refused')
})

t.test('thousands of changes of one tenant make no request of another wait', async (t) => {
  const { recheck, open } = createRecheckFixture(t)
  const heard = recheck.countHeard()
  const isNamed = (id: number): boolean => open(id, heard).entry.isNamed
  for (let id = 1_000; id < 11_000; id++) recheck.hear({ kind: 'user', id })
  recheck.hear({ kind: 'organization', id: 7 })
  t.same([2, 7, 1_000, 10_999].map(isNamed), [false, true, true, true])
  for (let id = 20_000; id < 70_000; id++) recheck.hear({ kind: 'user', id })
  t.ok(isNamed(2), 'one that is no longer remembered may concern it')
  t.notOk(open(2).entry.isNamed)
})

t.test('changes of one tenant that never stop end no request of another', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t, {}, slowly)
  const heard = recheck.countHeard()
  recheck.hear({ kind: 'token', id: 2 })
  const { entry } = open(2, heard)
  t.ok(entry.isNamed)
  const { read } = state
  state.read = async (keys) => {
    for (let id = 1_000; id < 1_100; id++) recheck.hear({ kind: 'token', id })
    return read(keys)
  }
  await recheck.confirm(entry)
  t.equal(entry.end, undefined)
})

t.test('a crowd of one tenant with old facts keeps no other tenant waiting', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const { entry } = open(2)
  // More than three batches take.
  for (let count = 0; count < 3_500; count += 1) open(1)
  const { read } = state
  let goOn = (): void => undefined
  const isQueued = new Promise<void>((resolve) => {
    goOn = resolve
  })
  state.read = (keys) => isQueued.then(() => read(keys))
  recheck.hear({ kind: 'everything' })
  await until(() => entry.queue !== 'none', 'its place in the line')
  goOn()
  await until(() => state.reads.length >= 4, 'the reads')
  t.ok(state.reads.slice(0, 2).some(({ tokens }) => tokens.includes(2)))
})

class BrokenProof extends TestProof {
  override isKeyListed(): Promise<boolean> {
    return Promise.reject(new TypeError('planted'))
  }
}

const planted = (): never => {
  throw new TypeError('planted')
}

function countFaults(t: Test): readonly unknown[] {
  const faults: unknown[] = []
  t.teardown(hearFaults((_, error) => faults.push(error)))
  return faults
}

t.test('a fault about one exchange keeps no other open after its expiry, or after an order', async (t) => {
  const faults = countFaults(t)
  const { recheck, open, state } = createRecheckFixture(t)
  const openAll = (): readonly OpenExchange[] => [
    open(1).entry,
    open(1, recheck.countHeard(), false, { reset: planted }).entry,
    open(1).entry,
  ]
  const filter = { userId: 1, organizationId: null, tokenId: null, route: null, requestId: null }
  const ordered = openAll()
  recheck.endSessions([{ id: 5, ageMs: 0, filter }], performance.now() + 1)
  await until(() => ordered.every(({ end }) => end?.code === 'access_revoked'), 'the ordered ends')
  state.tokens.set(1, tokenOf(1, new Date(Date.now() + 200)))
  const expired = openAll()
  await until(() => expired.every(({ end }) => end?.code === 'credential_expired'), 'the ends')
  t.ok(faults.length > 0)
})

t.test('a fault about one exchange keeps no other of its statement from its verdict', async (t) => {
  const faults = countFaults(t)
  const { recheck, open, state } = createRecheckFixture(t, {}, slowly)
  open(2)
  const principal = new BrokenProof(1, { isVerifiedByCurrentKeys: false }).judge(userOf(1))
  recheck.open(openAs({ caller: { principal, organizationId: 1 } }, state.table, {}), 0)
  state.tokens.delete(2)
  recheck.hear({ kind: 'user', id: 1 })
  recheck.hear({ kind: 'token', id: 2 })
  await until(() => state.ended.length > 0, 'the end', 30_000)
  t.same(state.ended, ['2 access_revoked'])
  t.ok(faults.length > 0)
})

const dayMs = 86_400_000

t.test('a clock that runs ahead for a while forgets no logout', async (t) => {
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const state = { ms: 1_000, aheadMs: Date.now() }
  const clocks = { now: () => new Date(state.ms + state.aheadMs), monotonicMs: () => state.ms }
  const at = Math.floor(clocks.now().getTime() / 1_000)
  const login: Login = {
    ...{ issuer: 'https://login.example', subject: 's', session: undefined, address: undefined },
    ...{ issuedAt: at, isOverlong: false },
  }
  const logout: Logout = { issuer: login.issuer, subject: 's', session: '', at, expiresAt: at + dayMs / 1_000 }
  const store = { readSince: async () => ({ horizon: 1, logouts: [logout] }) }
  const logouts = openLogouts(
    {
      issuers: [{ issuer: login.issuer, logout: {}, claims: {} }],
      transmitters: [],
      directory: { graceMs: 0 },
    } as never, // no more is asked
    { stores: { logouts: store, eventStreams: {} }, directory: {}, rights: { knownAt: () => state.ms } } as never, // no more is asked
    { ...clocks, log: {}, metrics: { watchLogouts: () => undefined, expectUnmatched: () => undefined } } as never, // no more is asked
  )
  t.teardown(logouts.stop)
  for (let turn = 0; turn < 9; turn++) await new Promise((resolve) => setImmediate(resolve))
  const pass = (ms: number): boolean => {
    state.ms += ms
    mock.timers.tick(600_000)
    return logouts.hasEnded(login)
  }
  t.ok(pass(600_000))
  state.aheadMs += 2 * dayMs
  t.ok(pass(600_000), 'the clock alone has passed its life')
  state.aheadMs -= 2 * dayMs
  t.ok(pass(600_000))
  t.notOk(pass(dayMs), 'after its life it is dropped')
})
