import t from 'tap'
import type { Login } from '../../../gateway/directory/logout.ts'
import type { Route } from '../../../gateway/policy/route.ts'
import { toTokenPrincipal } from '../../../gateway/stages/authenticate/principal.ts'
import type { Place } from '../../../gateway/stages/recheck/list-exchanges.ts'
import { compileRoutes } from '../../../gateway/stages/route/table.ts'
import { startFairClock } from '../../support/fair-clock.ts'
import { until } from '../../support/gateway.ts'
import { openAs, openWith, route, TestProof, tokenOf } from '../../support/open-exchange.ts'
import { createRecheckFixture, pause } from '../../support/recheck-fixture.ts'

t.test('without an open exchange no policy is asked for, since a start has none yet', async (t) => {
  const { recheck, state } = createRecheckFixture(t)
  recheck.hear({ kind: 'token', id: 1 })
  recheck.recheckAll()
  await pause(300)
  t.equal(state.policyReads, 0)
})

t.test('a change ends the exchanges that it names, and reads no caller of another tenant', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const [gone, kept] = [open(1), open(2)]
  state.tokens.delete(1)
  recheck.hear({ kind: 'organization', id: 1 })
  await until(() => state.ended.length > 0, 'the end')
  t.same(state.ended, ['1 access_revoked'])
  t.equal(gone.seen.resets, 1)
  t.equal(kept.seen.resets, 0)
  t.same(
    state.reads.flatMap(({ tokens }) => tokens),
    [1],
  )
})

t.test('a whole response has a moment to reach its client', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const { seen } = open(1, recheck.countHeard(), true)
  state.tokens.delete(1)
  recheck.hear({ kind: 'token', id: 1 })
  await until(() => state.ended.length > 0, 'the end')
  t.equal(seen.resets, 0)
  await until(() => seen.resets > 0, 'the reset')
})

t.test('a message alone ends nothing: the facts decide', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  open(1)
  for (const kind of ['token', 'user', 'organization'] as const) recheck.hear({ kind, id: 1 })
  recheck.hear({ kind: 'everything' })
  await until(() => state.reads.length > 0, 'a read')
  await pause(100)
  t.same(state.ended, [])
})

t.test('an order ends what was open at its moment, and no exchange that opened after it', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const [before, other] = [open(1), open(2)]
  await pause(20)
  const orderedAtMs = performance.now()
  await pause(20)
  const after = open(1)
  const filter = { userId: 1, organizationId: null, tokenId: null, route: null, requestId: null }
  const answeredAtMs = performance.now()
  recheck.endSessions([{ id: 5, ageMs: answeredAtMs - orderedAtMs, filter }], answeredAtMs)
  t.match(before.entry.end, { code: 'access_revoked', sessionEndId: 5, refusal: { exactCause: 'session_ended' } })
  t.same([other.entry.end, after.entry.end], [undefined, undefined])
  t.same(state.ended, ['1 access_revoked'])
})

t.test('a list holds no more than its page, in order, while it counts all', async (t) => {
  const { recheck, open } = createRecheckFixture(t)
  for (let count = 0; count < 50; count++) open(count < 40 ? 1 : 2)
  const filter = { userId: 1, organizationId: null, tokenId: null, route: null, requestId: null }
  const numbers: number[] = []
  let after: Place | undefined
  do {
    const { total, exchanges } = await recheck.list({ filter, after, limit: 7 })
    t.equal(total, 40)
    t.ok(exchanges.length <= 7)
    numbers.push(...exchanges.map(({ place }) => place[2]))
    after = exchanges.length === 7 ? exchanges.at(-1)?.place : undefined
  } while (after)
  t.same(
    numbers,
    Array.from({ length: 40 }, (_, index) => index),
  )
})

t.test('a change between the facts and the first byte is judged before it', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const heard = recheck.countHeard()
  state.tokens.set(1, tokenOf(1))
  recheck.hear({ kind: 'token', id: 2 })
  t.notOk(open(1, heard).entry.isNamed, 'of another')
  recheck.hear({ kind: 'token', id: 1 })
  const { entry } = open(1, heard)
  state.tokens.delete(1)
  t.ok(entry.isNamed)
  await recheck.confirm(entry)
  t.match(entry.end, { code: 'access_revoked', isCredential: true })
})

t.test('a permit is outdated by a change that concerns it, and by no other', (t) => {
  const { recheck } = createRecheckFixture(t)
  const opening = openWith(tokenOf(1), compileRoutes([route]), {})
  const heard = recheck.countHeard()
  recheck.hear({ kind: 'token', id: 2 })
  t.notOk(recheck.isOutdated(opening, heard))
  recheck.hear({ kind: 'token', id: 1 })
  t.ok(recheck.isOutdated(opening, heard))
  t.notOk(recheck.isOutdated(opening, recheck.countHeard()), 'its facts were read after the change')
  t.end()
})

t.test('a permit is outdated by a logout of its session, and by no other', (t) => {
  const ended = new Set<unknown>()
  const { recheck } = createRecheckFixture(t, {}, { hasEnded: (login) => ended.has(login) })
  const login = {} as Partial<Login> as Login // only compared
  const principal = { ...toTokenPrincipal(tokenOf(1)), proof: new TestProof(1, { login }) }
  const opening = openAs({ caller: { principal, organizationId: 1 } }, compileRoutes([route]), {})
  const heard = recheck.countHeard()
  recheck.endLogins()
  t.notOk(recheck.isOutdated(opening, heard))
  ended.add(login)
  recheck.endLogins()
  t.ok(recheck.isOutdated(opening, heard))
  t.end()
})

t.test('a route that leads elsewhere permits nothing', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  open(1)
  state.table = compileRoutes([{ ...route, destination: { kind: 'upstream', name: 'other' } }])
  recheck.recheckAll()
  await until(() => state.ended.length > 0, 'the end')
  t.same(state.ended, ['1 access_revoked'])
})

t.test('a route that rewrites its path otherwise permits nothing of before', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  open(1)
  const to = (text: string): Route => ({
    ...route,
    rewrite: { path: `/${text}`, parts: [{ kind: 'text', text }], strippedPrefix: undefined },
  })
  state.table = compileRoutes([to('one')])
  recheck.recheckAll()
  state.table = compileRoutes([to('two')])
  recheck.recheckAll()
  await until(() => state.ended.length > 0, 'the end')
  t.same(state.ended, ['1 access_revoked'])
})

t.test('a label of the host that became another organization’s ends the exchange', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const named = (slug: string) => {
    const record = tokenOf(1)
    const held = record.user.roles.map((one) => ({
      ...one,
      organization: { id: 1, slug, accountType: 'team' as const },
    }))
    return { ...record, user: { ...record.user, roles: held } }
  }
  state.table = compileRoutes([{ ...route, hostLabel: 'slug' }])
  state.tokens.set(1, named('h'))
  const { entry } = open(1)
  recheck.recheckAll()
  await recheck.confirm(entry)
  t.equal(entry.end, undefined)
  state.tokens.set(1, named('renamed'))
  recheck.recheckAll()
  await until(() => state.ended.length > 0, 'the end')
  t.match(entry.end, { code: 'access_revoked', refusal: { exactCause: 'host_not_a_member' } })
})

t.test('a policy that refuses needs no facts', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  state.read = () => Promise.reject(new Error('the database is down'))
  open(1)
  state.table = compileRoutes([{ ...route, destination: { kind: 'upstream', name: 'other' } }])
  recheck.recheckAll()
  await until(() => state.ended.length > 0, 'the end', 2_000)
  t.same(state.ended, ['1 access_revoked'])
})

t.test('an exchange that a change names, and whose facts cannot be read, ends; the others stay', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  state.read = () => new Promise(() => undefined)
  open(1)
  open(2)
  recheck.hear({ kind: 'token', id: 1 })
  const passedMs = startFairClock(t)
  await until(() => state.ended.length > 0, 'the end')
  t.ok(passedMs() < 1_500, 'a second, and the rest for a busy machine')
  await pause(300)
  t.same(state.ended, ['1 access_unverified'])
})

t.test('changes that name an exchange again and again prolong nothing while its facts cannot be read', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  state.read = () => new Promise(() => undefined)
  open(1)
  const naming = setInterval(() => recheck.hear({ kind: 'organization', id: 1 }), 50)
  t.teardown(() => clearInterval(naming))
  await until(() => state.ended.length > 0, 'the end', 5_000)
  t.same(state.ended, ['1 access_unverified'])
})

t.test('a change that names an exchange prolongs nothing where `end` ends what cannot be verified', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t, { onUnknown: 'end' })
  state.isProven = false
  state.read = () => new Promise(() => undefined)
  open(1)
  open(2)
  await until(() => state.reads.length > 0, 'the read')
  await pause(200)
  recheck.hear({ kind: 'token', id: 1 })
  await until(() => state.ended.length > 0, 'an end', 5_000)
  await pause(50)
  t.same(state.ended.sort(), ['1 access_unverified', '2 access_unverified'])
})

t.test('a crowd of one tenant that a change names keeps no other tenant waiting', async (t) => {
  // On a slow clock, because a busy machine may take longer than the second in which a named exchange must be read.
  const { recheck, open, state } = createRecheckFixture(t, {}, { monotonicMs: () => performance.now() / 20 })
  open(2)
  // More than three batches take.
  for (let count = 0; count < 3_500; count += 1) open(1)
  const { read } = state
  let goOn = (): void => undefined
  const isHeard = new Promise<void>((resolve) => {
    goOn = resolve
  })
  state.read = (keys) => isHeard.then(() => read(keys))
  recheck.hear({ kind: 'organization', id: 1 })
  await until(() => state.reads.length > 0, 'the first read')
  recheck.hear({ kind: 'organization', id: 2 })
  await pause(100)
  goOn()
  await until(() => state.reads.length >= 4, 'the other reads')
  const [first, second] = state.reads.map(({ tokens }) => [...tokens].sort())
  t.same(first, [1])
  t.same(second, [1, 2], 'it is in the very next statement')
  t.same(state.ended, [])
})

t.test('an exchange that waits among the stale ones goes ahead once a change names it', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  for (let id = 1; id <= 1_200; id += 1) open(id)
  const { read } = state
  let goOn = (): void => undefined
  const isHeard = new Promise<void>((resolve) => {
    goOn = resolve
  })
  state.read = (keys) => isHeard.then(() => read(keys))
  recheck.hear({ kind: 'everything' })
  await until(() => state.reads.length > 0, 'the first read')
  // The last to open is the first of its queue, so this one is in the third statement.
  const named = 1
  recheck.hear({ kind: 'token', id: named })
  await pause(100)
  goOn()
  await until(() => state.reads.length >= 2, 'the second read')
  t.equal(state.reads[1]?.tokens[0], named, 'it leads the very next statement')
})

t.test('without proof of changes each caller is read once a second at least, all in one statement', async (t) => {
  const { open, state } = createRecheckFixture(t)
  state.isProven = false
  for (let count = 0; count < 3; count += 1) open(1)
  open(2)
  await until(() => state.reads.length >= 3, 'three reads')
  t.same([...(state.reads[1]?.tokens ?? [])].sort(), [1, 2])
  state.tokens.delete(1)
  await until(() => state.ended.length === 3, 'the ends', 2_000)
})

t.test('a statement names a tenth of a crowd, and 500 callers at the most', async (t) => {
  for (const [crowd, most] of [
    [1_200, 120],
    [6_000, 500],
  ] as const) {
    // On a slow clock: once the time for rests is over, the statements of a busy machine are larger.
    const { recheck, open, state } = createRecheckFixture(t, {}, { monotonicMs: () => performance.now() / 20 })
    for (let id = 1; id <= crowd; id += 1) open(id)
    recheck.hear({ kind: 'everything' })
    await until(() => state.reads.flatMap(({ tokens }) => tokens).length >= crowd, 'all')
    t.ok(state.reads.every(({ tokens }) => tokens.length <= most))
    t.same(state.ended, [])
  }
})

t.test('a slow database is asked about a crowd in few statements', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const crowd = 600
  for (let id = 1; id <= crowd; id += 1) open(id)
  const { read } = state
  state.read = (keys) => pause(110).then(() => read(keys))
  recheck.hear({ kind: 'everything' })
  await until(() => state.reads.flatMap(({ tokens }) => tokens).length >= crowd, 'all')
  t.ok(state.reads.length <= 5, `${state.reads.length} statements`)
})

t.test('one statement is under way', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  for (let id = 1; id <= 1_200; id += 1) open(id)
  let underWay = 0
  let most = 0
  const { read } = state
  state.read = async (keys) => {
    underWay += 1
    most = Math.max(most, underWay)
    await pause(5)
    underWay -= 1
    return read(keys)
  }
  recheck.hear({ kind: 'everything' })
  await until(() => state.reads.flatMap(({ tokens }) => tokens).length >= 1_200, 'all')
  t.equal(most, 1)
  t.same(state.ended, [])
})

for (const [onUnknown, unknownMs] of [
  ['end', 300_000],
  ['keep', 1_200],
] as const)
  t.test(`with ${onUnknown}, exchanges that cannot be verified end in time`, async (t) => {
    const { open, state } = createRecheckFixture(t, { onUnknown, unknownMs })
    state.isProven = false
    state.read = () => Promise.reject(new Error('the database is down'))
    open(1)
    await until(() => state.ended.length > 0, 'the end', 3_000)
    t.same(state.ended, ['1 access_unverified'])
  })

t.test('a step of the wall clock shortens nothing that opens after it', async (t) => {
  const { open, state } = createRecheckFixture(t)
  state.wallStepMs = 7_200_000
  state.tokens.set(1, tokenOf(1, new Date(Date.now() + state.wallStepMs + 3_600_000)))
  open(1)
  await pause(300)
  open(1)
  await pause(200)
  t.same(state.ended, [])
})

t.test('a wall clock that is set back prolongs nothing, and one that is set forward shortens', async (t) => {
  const { open, state } = createRecheckFixture(t)
  state.tokens.set(1, tokenOf(1, new Date(Date.now() + 500)))
  state.tokens.set(2, tokenOf(2, new Date(Date.now() + 3_600_000)))
  open(1)
  open(2)
  state.wallStepMs = -7_200_000
  await until(() => state.ended.length === 1, 'the end of the first', 2_000)
  t.same(state.ended, ['1 credential_expired'])
  state.wallStepMs = 7_200_000
  await until(() => state.ended.length === 2, 'the end of the second', 2_000)
})
