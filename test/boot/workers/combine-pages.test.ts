import t from 'tap'
import { combinePages } from '../../../gateway/boot/workers/combine-pages.ts'
import type { Question } from '../../../gateway/boot/workers/messages.ts'
import type { WorkerProcess } from '../../../gateway/boot/workers/worker-process.ts'
import { createGroupMetrics } from '../../../gateway/observe/group-metrics.ts'
import { createMetrics } from '../../../gateway/observe/metrics.ts'

type Answers = Readonly<Partial<Record<Question, unknown>>>

/** Workers that tell these things, and reject what they are not given. */
function pagesOf(workers: readonly Answers[], isDraining = false) {
  const serving = workers.map((answers, index) => {
    const ask = async (question: Question): Promise<unknown> => {
      if (question in answers) return answers[question]
      throw new Error('silent')
    }
    return { number: index + 1, pid: index + 1, ask } as unknown as WorkerProcess // all that the pages use
  })
  return combinePages({ serving: () => serving }, createGroupMetrics(), createMetrics(), () => isDraining)
}

const well = { readiness: { database: 'ok' } }

t.test('a group is as ready as its least ready worker', async (t) => {
  t.same(await pagesOf([well, well]).readiness(), { database: 'ok', workers: 'ok', draining: 'ok' })
  t.match(await pagesOf([well, { readiness: { database: 'failing' } }]).readiness(), { database: 'failing' })
  t.match(await pagesOf([well, {}]).readiness(), { database: 'ok', workers: 'failing' })
  t.match(await pagesOf([{}, well]).readiness(), { database: 'ok', workers: 'failing' })
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

t.test('no answer is no empty set of keys, which verifiers would believe', async (t) => {
  await t.rejects(pagesOf([]).publicKeys())
  await t.rejects(pagesOf([{}, {}]).publicKeys())
})
