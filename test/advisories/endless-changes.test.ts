import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import type { Change } from '../../gateway/directory/change.ts'
import { createChangeQueue } from '../../gateway/directory/change-queue.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { openWith, route, tokenOf } from '../support/open-exchange.ts'
import { populate } from '../support/population.ts'
import { createRecheckFixture } from '../support/recheck-fixture.ts'
import { startTestWorld } from '../support/world.ts'

// A request was judged again for as long as changes kept coming, and then was 503. PostgreSQL forbids NOTIFY to no
// login, so one without any right refused the requests of all tenants. One new decision is enough.

const everything: Change = { kind: 'everything' }

/** A read takes 5 ms, and a change of this caller comes with each: the rate at which none was ever confirmed. */
function createEndlessFixture(t: Test, change: Change) {
  const fixture = createRecheckFixture(t, {}, { monotonicMs: () => performance.now() / 100 })
  const { recheck, state } = fixture
  const { read } = state
  state.read = async (keys) => {
    recheck.hear(change)
    await sleep(5)
    recheck.hear(change)
    return read(keys)
  }
  return fixture
}

for (const change of [{ kind: 'token', id: 1 }, everything] as const)
  t.test(`a request is judged again once, however often ${change.kind} changes`, async (t) => {
    const { recheck, open, state } = createEndlessFixture(t, change)
    const heard = recheck.countHeard()
    recheck.hear(change)
    const { entry } = open(1, heard)
    await recheck.confirm(entry)
    t.equal(entry.end, undefined)
    t.ok(state.rounds <= 2, `${state.rounds} rounds`)
    t.notOk(recheck.isUnconfirmed(entry), 'its head is written')
    state.tokens.delete(1)
    await until(() => entry.end, 'the end of its right')
    t.equal(entry.end?.code, 'access_revoked')
  })

t.test('a request that waits is judged by facts from after it began to wait', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const { entry } = open(1)
  const { read } = state
  let answer = (): void => undefined
  const isAsked = new Promise<void>((asked) => {
    state.read = async (keys) => {
      const facts = await read(keys)
      state.read = read
      await new Promise<void>((resolve) => {
        answer = resolve
        asked()
      })
      return facts
    }
  })
  recheck.hear({ kind: 'token', id: 1 })
  await isAsked
  state.tokens.delete(1)
  const confirmed = recheck.confirm(entry)
  answer()
  await confirmed
  t.equal(entry.end?.code, 'access_revoked')
})

t.test('a reload is judged before the head, however lately the request was confirmed', async (t) => {
  const { recheck, open, state } = createRecheckFixture(t)
  const { entry } = open(1)
  await recheck.confirm(entry)
  t.notOk(recheck.isUnconfirmed(entry))
  state.table = compileRoutes([{ ...route, destination: { kind: 'upstream', name: 'other' } }])
  recheck.recheckAll()
  t.ok(recheck.isUnconfirmed(entry))
})

t.test('a request whose question keeps its answer goes on, whatever is judged meanwhile', async (t) => {
  const answers: ((isYes: boolean) => void)[] = []
  const consultAgain = (): Promise<boolean> => new Promise((resolve) => answers.push(resolve))
  const { recheck, state } = createRecheckFixture(t, {}, { consultAgain, monotonicMs: () => performance.now() / 100 })
  state.tokens.set(1, tokenOf(1))
  const question = { pdp: 'one', action: 'read', about: { type: 'r', from: 'route' } } as const
  state.table = compileRoutes([{ ...route, questions: [question] }])
  const entry = recheck.open(openWith(tokenOf(1), compileRoutes([route]), {}), recheck.countHeard())
  const confirmed = recheck.confirm(entry)
  await until(() => answers.length > 0, 'the question')
  for (let times = 0; times < 3; times += 1) {
    const { length } = answers
    recheck.hear({ kind: 'token', id: 1 })
    await until(() => answers.length > length, 'the question again')
  }
  answers[0]?.(true)
  await confirmed
  t.equal(entry.end, undefined)
})

t.test('everything is handed on at once, then at most every 100 ms, and none is lost', async (t) => {
  const beganMs = performance.now()
  const taken: number[] = []
  let unreadable = 0
  const queue = createChangeQueue(
    () => taken.push(performance.now()),
    () => undefined,
    () => {
      unreadable += 1
    },
  )
  for (let times = 0; times < 2_000; times += 1) {
    queue.hear('{"kind":"everything"}')
    queue.hear('unreadable')
    if (times === 0) t.equal(taken.length, 1, 'at once')
    if (times % 20 === 0) await sleep(1)
  }
  const heardMs = performance.now()
  await queue.passed()
  t.equal(unreadable, 2_000)
  const toldMs = taken.at(-1) ?? 0
  t.ok(toldMs >= heardMs, 'all are told')
  // Between the queue's look at the clock and this test's, a busy machine rests: so they are counted. A timer of Node may
  // fire up to a millisecond early.
  t.ok(taken.length <= 1 + Math.ceil((toldMs - beganMs) / 99), `${taken.length} in ${toldMs - beganMs} ms`)
})

const world = await startTestWorld(t)
const { addAccount, writer } = await populate(t, world)

/** Every 10 ms: ten thousand a second in a campaign, and fewer on a machine with other work to do. */
const burst = process.env.CAMPAIGN === undefined ? 30 : 100

for (const [name, payload] of [
  ['everything', () => '{"kind":"everything"}'],
  ['messages that cannot be read', () => 'x'],
  ["the caller's own row", (id: number) => `{"kind":"user","id":${id}}`],
] as const)
  t.test(`${name}, thousands of times a second, refuses no request, and a right ends within a second`, async (t) => {
    const { id, tokenId, headers } = await addAccount(`endless-${name.length}`)
    const flood = new pg.Client({ connectionString: world.databaseUrl })
    await flood.connect()
    let isOver = false
    const statement = `select pg_notify('sallyport_changes', $1 || repeat(' ', n)) from generate_series(1, ${burst}) n`
    const flooding = (async () => {
      while (!isOver) await Promise.all([flood.query(statement, [payload(id)]), sleep(10)])
    })()
    const ask = async (): Promise<number> => (await world.call({ path: '/datasets', headers })).status
    const judge = async (): Promise<number> => {
      const asked = { 'x-original-method': 'GET', 'x-original-uri': '/datasets', ...headers }
      return (await call(world.decision, { path: '/authorize', headers: asked })).status
    }
    const statuses = new Map<number, number>()
    for (let round = 0; round < Number(process.env.CAMPAIGN ?? 40); round += 1)
      for (const status of await Promise.all([ask(), ask(), judge()]))
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
    t.same([...statuses.keys()], [200], JSON.stringify([...statuses]))
    await writer.query('delete from auth_access_tokens where id = $1', [tokenId])
    // The bound is a second; the rest is for a busy machine.
    await until(async () => (await ask()) === 401 && (await judge()) === 401, 'the refusals', 3_000)
    isOver = true
    await flooding
    await flood.end()
    t.match(
      await (await fetch(`${world.admin}/metrics`)).text(),
      /sallyport_invalidation_source_up{source="postgres"} 1/,
    )
  })
