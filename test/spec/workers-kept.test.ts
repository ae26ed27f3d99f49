import cluster from 'node:cluster'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Log, LogFields } from '../../gateway/observe/log/log.ts'
import { startWorkerPool, type WorkerPool, type WorkerPoolOptions } from '../../gateway/run/workers/worker-pool.ts'
import { until } from '../support/gateway.ts'

/** A worker without a gateway: it serves, answers questions, and stops when it is told. */
const worker = `
  const { number, listeners } = JSON.parse(process.env.SALLYPORT_ASSIGNMENT)
  process.on('message', ({ kind, id, question }) => {
    if (kind === 'drain') process.exit(0)
    if (kind === 'ping' || !globalThis.isSilent) process.send({ kind: 'answer', id, value: { question, number } })
  })
  const serve = () => process.send({ kind: 'serving', addresses: listeners })
`

type Line = Readonly<{ fields: LogFields; message: string }>

type TestCrew = WorkerPool & Readonly<{ lines: readonly Line[]; failures: readonly Error[]; restarts: () => number }>

function keep(t: Test, script: string, options: Partial<WorkerPoolOptions> = {}): TestCrew {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  const exec = join(directory, 'worker.cjs')
  writeFileSync(exec, worker + script)
  cluster.setupPrimary({ exec, args: [], execArgv: [] })
  const lines: Line[] = []
  const failures: Error[] = []
  let restarts = 0
  const note = (fields: LogFields, message: string): void => {
    lines.push({ fields, message })
  }
  const log: Log = { request: () => undefined, info: note, warn: note, error: note }
  const listener = { host: '127.0.0.1', port: 0 }
  const crew = startWorkerPool({
    size: 1,
    listeners: { public: listener, decision: listener },
    log,
    monotonicMs: () => performance.now(),
    silenceMs: 60_000,
    onDeath: () => undefined,
    onRestart: () => {
      restarts += 1
    },
    onFailure: (error) => failures.push(error),
    ...options,
  })
  t.teardown(async () => {
    // Some tests end their workers badly on purpose.
    await crew.drain({ delayMs: 0, timeoutMs: 0 }).catch(() => undefined)
    rmSync(directory, { recursive: true })
  })
  return { ...crew, lines, failures, restarts: () => restarts }
}

const firstPid = ({ serving }: WorkerPool): number | undefined => serving()[0]?.pid

t.test('a worker whose event loop stands still is killed, and another takes its place', async (t) => {
  const crew = keep(t, 'serve(); setTimeout(() => { for (;;); }, 50)', { silenceMs: 300 })
  await crew.started
  const pid = firstPid(crew)
  await until(() => crew.restarts() > 0, 'another worker', 20_000)
  t.match(
    crew.lines.find(({ message }) => message.startsWith('worker died')),
    { fields: { worker: 1, pid, signal: 'SIGKILL' } },
  )
})

t.test('a worker whose event loop turns is left alone, whatever it cannot tell', async (t) => {
  const crew = keep(t, 'globalThis.isSilent = true; serve()', { silenceMs: 1_500 })
  await crew.started
  const pid = firstPid(crew)
  await new Promise((resolve) => setTimeout(resolve, 2_500))
  t.equal(firstPid(crew), pid)
  t.equal(crew.restarts(), 0)
})

t.test('a question to a worker that says nothing, or dies over it, is rejected', async (t) => {
  const crew = keep(t, 'globalThis.isSilent = true; serve()')
  await crew.started
  const [first] = crew.serving()
  if (!first) throw new Error('no worker serves')
  await t.rejects(first.ask('readiness', 100), { message: 'worker 1 did not send its readiness' })
  const askedAtMs = performance.now()
  const asked = first.ask('metrics', 60_000)
  first.kill()
  await t.rejects(asked, { message: 'worker 1 did not send its metrics' })
  t.ok(performance.now() - askedAtMs < 30_000)
})

t.test('a worker that is gone counts as gone, though something holds its channel open', async (t) => {
  const hold = "require('node:child_process').spawn('sleep', ['15'], { stdio: ['ignore', 'ignore', 'ignore', 3] })"
  const crew = keep(t, `serve(); setTimeout(() => { ${hold}; process.exit(3) }, 20)`)
  await crew.started
  await until(() => crew.restarts() > 0, 'another worker', 5_000)
})

t.test('while others serve, one that dies again and again ends nothing', async (t) => {
  const crew = keep(t, 'serve(); if (number === 1) setTimeout(() => process.exit(3), 20)', { size: 2 })
  await until(() => crew.restarts() >= 5, 'the fifth restart', 60_000)
  t.same(crew.failures, [])
  t.equal(
    crew.serving().some(({ number }) => number === 2),
    true,
  )
})

t.test('the pool gives up when no worker serves and every start fails', async (t) => {
  const crew = keep(t, 'serve(); setTimeout(() => process.exit(3), 50)')
  await crew.started
  await until(() => crew.failures.length > 0, 'the failure', 60_000)
  t.match(crew.failures, [{ message: 'worker 1 ended 5 times soon after its start (exit code 3)' }])
  t.equal(crew.failures.length, 1)
})

t.test('a worker’s own report of its failure ends the start alone', async (t) => {
  const fail = "process.send({ kind: 'failed', failure: { exitCode: 2, message: 'gone' } }, () => process.exit(1))"
  const atStart = keep(t, fail)
  await until(() => atStart.failures.length > 0, 'the failure', 20_000)
  t.match(atStart.failures, [{ exitCode: 2, message: 'gone' }])

  const marker =
    "const { existsSync, writeFileSync } = require('node:fs'); const isFirst = !existsSync(__filename + number); writeFileSync(__filename + number, '')"
  const later = keep(t, `${marker}; if (isFirst || number === 2) serve(); else ${fail}`, { size: 2 })
  await later.started
  later
    .serving()
    .find(({ number }) => number === 1)
    ?.kill()
  await until(() => later.restarts() >= 2, 'another try', 20_000)
  t.same(later.failures, [])
  t.match(later.lines.at(-1), { fields: { failure: { message: 'gone' } } })
})

t.test('a worker that does not drain in time is killed, and the drain fails', async (t) => {
  const crew = keep(t, "process.removeAllListeners('message'); process.on('message', () => {}); serve()")
  await crew.started
  await t.rejects(crew.drain({ delayMs: 0, timeoutMs: 0 }), { message: 'a worker did not drain (SIGKILL)' })
  t.same(crew.serving(), [])
})
