import t, { type Test } from 'tap'
import type { ClusterRecord } from '../../../gateway/directory/directory.ts'
import { nameIdentity } from '../../../gateway/directory/directory.ts'
import type { Login } from '../../../gateway/directory/logout.ts'
import type { Route } from '../../../gateway/policy/route.ts'
import { toTokenPrincipal } from '../../../gateway/stages/authenticate/principal.ts'
import type { OpenExchange } from '../../../gateway/stages/recheck/open-exchange.ts'
import { compileRoutes } from '../../../gateway/stages/route/table.ts'
import { until } from '../../support/gateway.ts'
import { openAs, openWith, route, TestProof, tokenOf, userOf } from '../../support/open-exchange.ts'
import { createRecheckFixture } from '../../support/recheck-fixture.ts'

// The opening counts: its facts until the first byte, and its credential, host, path and upstream from then on.

const elsewhere: Route = { ...route, destination: { kind: 'upstream', name: 'other' } }

type RecheckFixture = ReturnType<typeof createRecheckFixture>

/** Opens an exchange by a JWT, whose user the directory knows. */
function openByJwt({ recheck, state }: RecheckFixture, proof: TestProof, exchange: object = {}): OpenExchange {
  const user = userOf(1)
  state.users.set(nameIdentity(proof), user)
  const caller = { principal: proof.judge(user), organizationId: 1 }
  return recheck.open(openAs({ caller }, state.table, exchange), recheck.countHeard())
}

/** Reloads the policy, and tells why the exchange has ended once it was judged by it. */
async function reload({ recheck, state }: RecheckFixture, routes: readonly Route[], open: OpenExchange) {
  const { policyReads } = state
  state.table = compileRoutes(routes)
  recheck.recheckAll()
  const isJudged = () => state.policyReads > policyReads && open.queue === 'none' && !open.isStale
  await until(() => open.end !== undefined || isJudged(), 'the verdict')
  return open.end?.refusal.exactCause
}

t.test('a reload, and a change of anything, between the facts and the first byte is judged before it', async (t) => {
  for (const hasReload of [true, false]) {
    const { recheck, state } = createRecheckFixture(t)
    const heard = recheck.countHeard()
    const before = state.table
    const record = tokenOf(1)
    state.tokens.set(1, record)
    if (hasReload) {
      state.table = compileRoutes([elsewhere])
      recheck.recheckAll()
    } else {
      state.tokens.delete(1)
      recheck.hear({ kind: 'everything' })
    }
    const entry = recheck.open(openWith(record, before, {}), heard)
    t.ok(entry.isNamed)
    await recheck.confirm(entry)
    t.equal(entry.end?.code, 'access_revoked')
  }
})

t.test('a change while the facts are read again is judged behind the first byte, within the second', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const heard = recheck.countHeard()
  recheck.hear({ kind: 'token', id: 1 })
  const { entry } = open(1, heard)
  const { read } = state
  state.read = async (keys) => {
    const facts = await read(keys)
    if (state.reads.length > 1) return facts
    state.tokens.delete(1)
    recheck.hear({ kind: 'token', id: 1 })
    return facts
  }
  await recheck.confirm(entry)
  t.equal(entry.end, undefined, 'once is enough')
  t.ok(entry.isNamed, 'the queue judges it')
  await until(() => entry.end !== undefined, 'its end')
  t.equal(state.reads.length, 2)
  t.equal(entry.end?.code, 'access_revoked')
})

const question = { pdp: 'one', action: 'read', about: { type: 'r', from: 'route' } } as const

t.test('the facts last judged are kept for the head of the request, and no longer', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const { entry } = open(1)
  t.notOk(recheck.isUnconfirmed(entry))
  recheck.hear({ kind: 'token', id: 2 })
  t.notOk(recheck.isUnconfirmed(entry), 'a change of another')
  state.tokens.set(1, { ...tokenOf(1), abilities: ['x:read'] })
  recheck.hear({ kind: 'token', id: 1 })
  t.ok(recheck.isUnconfirmed(entry), 'before anything was read')
  await recheck.confirm(entry)
  t.notOk(recheck.isUnconfirmed(entry))
  t.same(entry.permit.caller?.principal.credential.abilities, ['x:read'])
  recheck.recheckAll()
  t.ok(recheck.isUnconfirmed(entry), 'a reload, before its rest is over')
  await recheck.confirm(entry)
  t.notOk(recheck.isUnconfirmed(entry))
  entry.releasePermit()
  recheck.hear({ kind: 'token', id: 1 })
  await recheck.confirm(entry)
  t.throws(() => entry.permit, { code: 'internal' })
})

t.test('facts whose question has no answer yet are kept for no head', async (t) => {
  const answers: ((isYes: boolean) => void)[] = []
  const consultAgain = (): Promise<boolean> => new Promise((resolve) => answers.push(resolve))
  const { recheck, open, state } = createRecheckFixture(
    t,
    {},
    { consultAgain, monotonicMs: () => performance.now() / 20 },
  )
  const { entry } = open(1)
  state.table = compileRoutes([{ ...route, questions: [question] }])
  state.tokens.set(1, { ...tokenOf(1), abilities: ['x:read'] })
  recheck.hear({ kind: 'everything' })
  await until(() => answers.length > 0, 'the question')
  t.throws(() => entry.permit, { code: 'internal' })
  t.ok(recheck.isUnconfirmed(entry))
  const confirmed = recheck.confirm(entry)
  await until(() => answers.length > 1, 'the question of the confirmation')
  for (const answer of answers) answer(true)
  await confirmed
  t.equal(entry.end, undefined)
  t.same(entry.permit.caller?.principal.credential.abilities, ['x:read'])
})

t.test('a logout, or a withdrawn key, between the facts and the first byte is judged before it', async (t) => {
  const login: Login = {
    ...{ issuer: 'https://login.example', subject: '1', address: undefined, session: undefined },
    ...{ issuedAt: 1, isOverlong: false },
  }
  const ended = new Set<Login>([login])
  const fixture = createRecheckFixture(t, {}, { hasEnded: (one) => ended.has(one) })
  const cases = [
    [new TestProof(1, { login }), 'signed_out'],
    [new TestProof(1, { isVerifiedByCurrentKeys: false, isKeyListed: false }), 'key_withdrawn'],
    [new TestProof(1, { isVerifiedByCurrentKeys: false }), undefined],
  ] as const
  for (const [proof, cause] of cases) {
    const open = openByJwt(fixture, proof)
    t.ok(open.isNamed)
    await fixture.recheck.confirm(open)
    t.equal(open.end?.refusal.exactCause, cause)
    if (cause) t.ok(open.end?.isCredential)
  }
  t.notOk(openByJwt(fixture, new TestProof(1)).isNamed)
})

t.test('the host of the opening counts', async (t) => {
  const fixture = createRecheckFixture(t)
  const own: Route = { ...route, host: 'h' }
  const other: Route = { ...elsewhere, id: 'two', host: 'x' }
  const { entry } = fixture.open(1)
  t.equal(await reload(fixture, [own, other], entry), undefined)
  t.equal(await reload(fixture, [{ ...own, host: 'x' }], entry), 'route_not_found')
})

t.test('the path of the opening counts', async (t) => {
  const fixture = createRecheckFixture(t)
  const other: Route = { ...elsewhere, id: 'two', path: '/two' }
  const { entry } = fixture.open(1)
  t.equal(await reload(fixture, [route, other], entry), undefined)
  t.equal(await reload(fixture, [{ ...route, path: '/two' }], entry), 'route_not_found')
})

t.test('the credential of the opening counts, whatever else its user holds', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  state.tokens.set(2, { ...tokenOf(2), user: userOf(1, 2) })
  const [gone, kept] = [open(1).entry, open(2).entry]
  state.tokens.delete(1)
  recheck.hear({ kind: 'user', id: 1 })
  await until(() => gone.end !== undefined && !kept.isNamed, 'the verdicts')
  t.equal(kept.end, undefined)
  state.tokens.set(2, { ...tokenOf(2), user: userOf(7, 2) })
  recheck.hear({ kind: 'token', id: 2 })
  await until(() => kept.end !== undefined, 'the end of a token that has another owner')
  t.equal(kept.end?.refusal.exactCause, 'user_gone')
})

t.test('a change of an ancestor of a token, or of its owner, concerns what the token opened', async (t) => {
  for (const change of [{ kind: 'token', id: 50 } as const, { kind: 'user', id: 60 } as const]) {
    const { recheck, open, state } = createRecheckFixture(t)
    state.tokens.set(1, { ...tokenOf(1), ancestors: [{ id: 50, userId: 60 }] })
    const { entry } = open(1)
    const other = open(2).entry
    state.tokens.delete(1)
    recheck.hear(change)
    await until(() => entry.end !== undefined, `the end by the ${change.kind}`, 5_000)
    t.equal(entry.end?.code, 'access_revoked')
    t.notOk(other.isNamed)
    t.ok(state.reads.every(({ tokens }) => !tokens.includes(2)))
  }
})

t.test('a route that was public, or was one of WebSockets, permits what it permits now', async (t) => {
  const open = (t: Test, opened: Route, exchange: object) => {
    const fixture = createRecheckFixture(t)
    const { recheck, state } = fixture
    state.table = compileRoutes([opened])
    const entry = recheck.open(openAs({}, state.table, exchange), 0)
    return [fixture, entry] as const
  }
  const publicRoute: Route = { ...route, isPublic: true, role: undefined }
  const [one, ofPublic] = open(t, publicRoute, {})
  t.equal(await reload(one, [publicRoute], ofPublic), undefined)
  t.equal(await reload(one, [route], ofPublic), 'credential_missing')
  const socketRoute: Route = { ...publicRoute, isWebSocket: true }
  const socket = { status: 101, isHandshake: true }
  const [two, ofSocket] = open(t, socketRoute, socket)
  t.equal(await reload(two, [socketRoute], ofSocket), undefined)
  t.equal(await reload(two, [publicRoute], ofSocket), 'route_not_found')
  const [three, answered] = open(t, publicRoute, {})
  const answer: Route = { ...publicRoute, destination: { kind: 'answer', name: 'users.me' } }
  t.equal(await reload(three, [answer], answered), 'route_not_found')
})

const cluster: ClusterRecord = {
  ...{ id: 7, organizationId: 1, slug: 'seven', baseUrl: 'http://b', lastHeartbeatAt: null },
  ...{ isSuspended: false, isDeleting: false },
}

const changesOfCluster: Readonly<Record<string, readonly [ClusterRecord | undefined, string | undefined]>> = {
  'a later heartbeat': [{ ...cluster, lastHeartbeatAt: new Date() }, undefined],
  'another path at its origin': [{ ...cluster, baseUrl: 'http://b/other' }, undefined],
  'another origin': [{ ...cluster, baseUrl: 'http://c' }, 'route_not_found'],
  'an address that is none': [{ ...cluster, baseUrl: 'b' }, 'route_not_found'],
  'another organization': [{ ...cluster, organizationId: 2 }, 'cluster_foreign'],
  'a suspension': [{ ...cluster, isSuspended: true }, 'cluster_suspended'],
  'a deletion that began': [{ ...cluster, isDeleting: true }, 'cluster_deleting'],
  'a deletion': [undefined, 'cluster_unknown'],
}

for (const [name, [changed, cause]] of Object.entries(changesOfCluster))
  t.test(`${name} of a cluster ${cause ? 'ends' : 'ends nothing of'} what leads to it`, async (t) => {
    const { recheck, state } = createRecheckFixture(t)
    const path = '/clusters/:id/*'
    state.table = compileRoutes([{ ...route, path, destination: { kind: 'cluster', param: 'id' } }])
    state.tokens.set(1, tokenOf(1))
    state.clusters.set(7, cluster)
    const caller = { principal: toTokenPrincipal(tokenOf(1)), organizationId: 1 }
    const upstream = { name: 'cluster:7', origin: 'http://b' }
    const open = recheck.open(openAs({ caller, upstream }, state.table, { target: '/clusters/7/file' }), 0)
    if (changed) state.clusters.set(7, changed)
    else state.clusters.delete(7)
    recheck.hear({ kind: 'cluster', id: 7 })
    const isKept = (): boolean => state.reads.length > 0 && open.queue === 'none' && !open.isNamed
    await until(() => open.end !== undefined || isKept(), 'a verdict')
    t.equal(open.end?.refusal.exactCause, cause)
  })

t.test('a JWT ends WebSockets, or all, or none before `maxLifeMs`, and an API token always', async (t) => {
  const maxLifeMs = 600_000
  const [soon, late] = [Date.now() + 60_000, Date.now() + 3_600_000]
  const socketRoute: Route = { ...route, isWebSocket: true }
  const handshake = { isHandshake: true }
  const grid = [
    ['none', {}, soon, 'life'],
    ['none', handshake, soon, 'life'],
    ['websocket', {}, soon, 'life'],
    ['websocket', handshake, soon, 'expiry'],
    ['all', {}, soon, 'expiry'],
    ['all', handshake, soon, 'expiry'],
    ['none', {}, late, 'expiry'],
    ['none', handshake, late, 'expiry'],
  ] as const
  for (const [endAtExpiry, exchange, endsAtMs, expected] of grid) {
    const fixture = createRecheckFixture(t, { endAtExpiry, maxLifeMs })
    fixture.state.table = compileRoutes([socketRoute])
    const { expiresAtMs, openedAtMs } = openByJwt(fixture, new TestProof(1, { endsAtMs }), exchange)
    const livesMs = Number(expiresAtMs) - openedAtMs
    const what = `${endAtExpiry} ${JSON.stringify(exchange)} ${livesMs}`
    if (expected === 'life') t.equal(livesMs, maxLifeMs, what)
    else t.ok(Math.abs(livesMs - (endsAtMs - Date.now())) < 10_000, what)
  }
  const { open, state } = createRecheckFixture(t, { endAtExpiry: 'none', maxLifeMs })
  t.equal(open(1).entry.expiresAtMs, undefined, 'a token without an expiry')
  state.tokens.set(2, tokenOf(2, new Date(soon)))
  const { expiresAtMs = 0, openedAtMs } = open(2).entry
  t.ok(expiresAtMs > 0 && expiresAtMs - openedAtMs < 70_000)
})

/** A clock that goes on with each look at it, so that slices end after some work, however fast the machine is. */
function createCountingClock(stepMs: number) {
  let nowMs = 1_000
  return () => {
    nowMs += stepMs
    return nowMs
  }
}

/** Counts the turns of the event loop. */
function countTurns(t: Test): () => number {
  let turn = 0
  let next = setImmediate(pass)
  function pass(): void {
    turn += 1
    next = setImmediate(pass)
  }
  t.teardown(() => clearImmediate(next))
  return () => turn
}

const mostOfOne = (turns: readonly number[]): number => {
  const counts = new Map<number, number>()
  for (const turn of turns) counts.set(turn, (counts.get(turn) ?? 0) + 1)
  return Math.max(...counts.values())
}

t.test('a crowd is judged and listed in slices, with turns for others between', async (t) => {
  const readTurn = countTurns(t)
  const judged: number[] = []
  const now = (): Date => {
    judged.push(readTurn())
    return new Date()
  }
  const { recheck, open } = createRecheckFixture(t, {}, { monotonicMs: createCountingClock(0.05), now })
  for (let count = 0; count < 200; count += 1) open(1)
  judged.length = 0
  recheck.hear({ kind: 'organization', id: 1 })
  await until(() => judged.length >= 200, 'the verdicts')
  t.ok(mostOfOne(judged) <= 20, `${mostOfOne(judged)} in a turn`)
  const listed: number[] = []
  const crowd = createRecheckFixture(t, {}, { monotonicMs: createCountingClock(0.05) })
  for (let count = 0; count < 3_000; count += 1) {
    const opening = openWith(tokenOf(1), crowd.state.table, {})
    const describeOpening = () => {
      listed.push(readTurn())
      return opening.report.describeOpening()
    }
    crowd.recheck.open({ ...opening, report: { ...opening.report, describeOpening } }, 0)
  }
  const filter = { userId: null, organizationId: null, tokenId: null, route: 'another', requestId: null }
  t.equal((await crowd.recheck.list({ filter, after: undefined, limit: 10 })).total, 0)
  t.equal(listed.length, 3_000)
  t.ok(mostOfOne(listed) <= 1_000, `${mostOfOne(listed)} in a turn`)
})

t.test('with `onUnknown: end` a head waits for its facts while nothing proves those of a cache', async (t) => {
  for (const [onUnknown, isProven, isNamed] of [
    ['end', false, true],
    ['end', true, false],
    ['keep', false, false],
  ] as const) {
    const { open, recheck, state } = createRecheckFixture(t, { onUnknown })
    state.isProven = isProven
    const { entry } = open(1)
    t.equal(entry.isNamed, isNamed)
    await recheck.confirm(entry)
    t.equal(entry.end, undefined)
  }
})
