import t from 'tap'
import type { HistoryQuery } from '../../../gateway/listeners/admin/history/history.ts'
import type { AdminState } from '../../../gateway/listeners/admin/listener.ts'
import { createGroupMetrics } from '../../../gateway/observe/metrics/group.ts'
import { createMetrics } from '../../../gateway/observe/metrics/metrics.ts'
import { aggregatePages } from '../../../gateway/run/workers/aggregate-pages.ts'
import type { WorkerQuestion } from '../../../gateway/run/workers/messages.ts'
import type { WorkerProcess } from '../../../gateway/run/workers/worker-process.ts'

type Answers = Readonly<Partial<Record<WorkerQuestion, unknown>>>

/** A worker whose process ends while it is asked. */
const ending: Answers = {}

/** Workers that tell these things, and reject what they are not given. */
function pagesOf(workers: readonly Answers[], isDraining = false, asked: unknown[] = []) {
  const gone = new Set<Answers>()
  const living = workers.map((answers, index) => {
    const ask = async (question: WorkerQuestion, _: number, query?: HistoryQuery): Promise<unknown> => {
      if (query) asked.push(query)
      if (question in answers) return answers[question]
      if (answers === ending) gone.add(answers)
      throw new Error('silent')
    }
    const isGone = () => gone.has(answers)
    return { number: index + 1, pid: index + 1, ask, isGone } as unknown as WorkerProcess // all that the pages use
  })
  let facts: AdminState | undefined
  const openConsole = (told: AdminState) => {
    facts = told
    return () => undefined
  }
  const pages = aggregatePages(
    { serving: () => living.filter(({ isGone }) => !isGone()) },
    createGroupMetrics(),
    createMetrics(),
    () => isDraining,
    openConsole,
  )
  if (!facts) throw new Error('the console was told nothing')
  return { ...pages, facts }
}

const well = { readiness: { database: 'ok' } }

t.test('a group is as ready as its least ready worker', async (t) => {
  t.same(await pagesOf([well, well]).readiness(), { database: 'ok', workers: 'ok', draining: 'ok' })
  t.match(await pagesOf([well, { readiness: { database: 'failing' } }]).readiness(), { database: 'failing' })
  t.match(await pagesOf([well, {}]).readiness(), { database: 'ok', workers: 'failing' })
  t.match(await pagesOf([{}, well]).readiness(), { database: 'ok', workers: 'failing' })
})

t.test('a worker that ends while it is asked leaves the group ready, except the only one', async (t) => {
  t.same(await pagesOf([ending, well]).readiness(), { database: 'ok', workers: 'ok', draining: 'ok' })
  t.same(await pagesOf([ending]).readiness(), { workers: 'failing', draining: 'ok' })
})

t.test('a group without a worker that serves is not ready', async (t) => {
  t.same(await pagesOf([]).readiness(), { workers: 'failing', draining: 'ok' })
})

t.test('a draining group is not ready, whatever its workers say by then', async (t) => {
  t.match(await pagesOf([{ readiness: { draining: 'ok' } }], true).readiness(), { draining: 'failing' })
})

t.test('the public keys are those of all workers, each once', async (t) => {
  const [old, young] = [
    { kid: 'old', x: '1' },
    { kid: 'young', x: '2' },
  ]
  const pages = pagesOf([{ publicKeys: { keys: [old] } }, { publicKeys: { keys: [young, old] } }, {}])
  t.same(await pages.publicKeys(), { keys: [old, young] })
})

t.test('a missing answer does not become an empty set of keys, which verifiers would believe', async (t) => {
  await t.rejects(pagesOf([]).publicKeys())
  await t.rejects(pagesOf([{}, {}]).publicKeys())
})

const at = (second: number): string => new Date(second * 1_000).toISOString()

t.test('the history of a group is that of all workers, and each is asked for the same range', async (t) => {
  const asked: unknown[] = []
  const query = { toSlot: 7, slots: 90, step: 2, filter: {} }
  const history = (requests: number, timeMs: number) => ({
    traffic: {
      total: { rows: [[6, requests]], recent: [requests], before: [] },
      ...{ routes: [], upstreams: [], causes: [], drops: [] },
    },
    callers: [{ caller: 7, requests, refused: 0, failed: 0 }],
    requests: [{ timeMs }],
  })
  const { facts } = pagesOf([{ history: history(2, 1) }, {}, { history: history(3, 9) }], false, asked)
  t.match(await facts.history(query as unknown as HistoryQuery), {
    traffic: { total: { rows: [[6, 5]], recent: [5] } },
    callers: [{ caller: 7, requests: 5 }],
    requests: [{ timeMs: 9 }, { timeMs: 1 }],
  })
  t.same(asked, [query, query, query])
})

t.test('a group shows the policy of a worker that could not load it, or else the oldest', async (t) => {
  const state = (second: number, failure?: string) => ({
    loadedAt: at(second),
    failure: failure && { since: at(9), message: failure },
  })
  const tell = async (...states: readonly unknown[]) =>
    pagesOf(states.map((policies) => ({ policies }))).facts.policies()
  t.match(await tell({ live: state(4) }, { live: state(2) }, { live: state(3) }), { live: { loadedAt: at(2) } })
  t.match(await tell({ live: state(2) }, { live: state(4, 'a.yaml:1:1: x') }), { live: { failure: { since: at(9) } } })
  const shadows = [
    { live: state(1), shadow: state(5) },
    { live: state(1), shadow: state(6, 'b.yaml:1:1: y') },
  ]
  t.match(await tell(...shadows), { shadow: { loadedAt: at(6) } })
  await t.rejects(pagesOf([{}]).facts.policies(), 'no answer is no good news')
})

t.test('a fact that is the same everywhere comes from any worker that answers', async (t) => {
  const { facts } = pagesOf([{}, { clusters: { clusters: [], total: 0 }, policyTexts: [['a.yaml', 'x']] }])
  t.same(await facts.clusters(), { clusters: [], total: 0 })
  t.same(await facts.policyTexts(), [['a.yaml', 'x']])
})
