import cluster from 'node:cluster'
import { guarded } from '../../base/fault/guarded.ts'
import { ReportedError } from '../../configuration/failure.ts'
import type { Log } from '../../observe/log/log.ts'
import { createGroupAddresses } from './group-addresses.ts'
import type { Assignment, DrainTimes, ListenerAddresses } from './messages.ts'
import { monitorLiveness } from './monitor-liveness.ts'
import { createRestartBackoff } from './restart-backoff.ts'
import { forkWorker, type WorkerEnd, type WorkerProcess } from './worker-process.ts'

export type WorkerPool = Readonly<{
  started: Promise<ListenerAddresses>
  serving: () => readonly WorkerProcess[]
  drain: (times: DrainTimes) => Promise<void>
}>

export type WorkerPoolOptions = Readonly<{
  size: number
  listeners: Assignment['listeners']
  log: Log
  monotonicMs: () => number
  silenceMs: number
  onDeath: (worker: WorkerProcess) => void
  onRestart: () => void
  onFailure: (error: Error) => void
}>

/** After 1.5 s of pauses: the next start would fail too, and an orchestrator should know. */
const maxStartFailures = 5

/** Time that a worker may take beyond the drain's, for its last writes. */
const graceMs = 5_000

type PoolState = {
  readonly living: Set<WorkerProcess>
  readonly serving: Set<WorkerProcess>
  isStarted: boolean
  isEnding: boolean
}

export function startWorkerPool(options: WorkerPoolOptions): WorkerPool {
  acceptInWorkers()
  const group = createGroupAddresses(options.listeners)
  const pool: PoolState = { living: new Set(), serving: new Set(), isStarted: false, isEnding: false }
  let resolveStarted: (addresses: ListenerAddresses) => void = () => undefined
  const started = new Promise<ListenerAddresses>((resolve) => {
    resolveStarted = resolve
  })
  const killAll = (): void => {
    for (const worker of pool.living) worker.kill()
  }
  process.once('exit', guarded('process', killAll))

  const fail = (error: Error): void => {
    if (pool.isEnding) return
    pool.isEnding = true
    killAll()
    options.onFailure(error)
  }
  const start = (number: number): WorkerProcess => {
    const worker = forkWorker({ number, listeners: group.listeners() })
    pool.living.add(worker)
    void worker.served.then((addresses) => {
      if (!group.accept(addresses)) {
        worker.kill()
        return
      }
      noteServing(worker, pool, options)
      if (pool.serving.size < options.size) return
      pool.isStarted = true
      resolveStarted(addresses)
    })
    return worker
  }
  for (let number = 1; number <= options.size; number++) respawn(number, pool, options, { start, fail }).catch(fail)

  return {
    started,
    serving: () => [...pool.serving].filter(({ isGone }) => !isGone()),
    drain: async (times) => {
      pool.isEnding = true
      const timer = setTimeout(guarded('process', killAll), times.delayMs + times.timeoutMs + graceMs)
      await endAll(pool.living, pool.serving, times).finally(() => clearTimeout(timer))
    },
  }
}

function noteServing(worker: WorkerProcess, pool: PoolState, { log, silenceMs }: WorkerPoolOptions): void {
  const { number, pid } = worker
  pool.serving.add(worker)
  log.info({ worker: number, pid }, 'worker started')
  void monitorLiveness(worker, silenceMs, () => {
    log.error({ worker: number, pid }, 'silent worker killed')
    worker.kill()
  })
}

type PoolActions = Readonly<{ start: (number: number) => WorkerProcess; fail: (error: Error) => void }>

async function respawn(
  number: number,
  pool: PoolState,
  { log, monotonicMs, onDeath, onRestart }: WorkerPoolOptions,
  { start, fail }: PoolActions,
): Promise<void> {
  const judge = createRestartBackoff()
  for (;;) {
    const startedMs = monotonicMs()
    const worker = start(number)
    const end = await worker.ended
    pool.living.delete(worker)
    pool.serving.delete(worker)
    onDeath(worker)
    if (pool.isEnding) return
    const { delayMs, quickDeaths } = judge(monotonicMs() - startedMs)
    log.error({ worker: number, pid: worker.pid, ...end, delayMs }, 'worker died; another starts')
    // The worker's own words say it best, and a new worker would fail in the same way.
    if (end.failure && !pool.isStarted) return fail(new ReportedError(end.failure))
    if (quickDeaths >= maxStartFailures && (!pool.isStarted || pool.serving.size === 0))
      return fail(new Error(`worker ${number} ended ${quickDeaths} times soon after its start (${describeEnd(end)})`))
    await sleep(delayMs)
    if (pool.isEnding) return
    onRestart()
  }
}

/** A worker that has not served yet may end in any way; one that has served must end well. */
async function endAll(living: Workers, serving: Workers, times: DrainTimes): Promise<void> {
  for (const worker of living) worker.drain(times)
  const ends = Promise.all([...serving].map(({ ended }) => ended))
  await Promise.all([...living].map(({ ended }) => ended))
  // A worker with a hanging thread ends its drain by this signal (end-process.ts).
  const bad = (await ends).find(({ code, signal }) => code !== 0 && signal !== 'SIGTERM')
  if (bad) throw new Error(`a worker did not drain (${describeEnd(bad)})`)
}

type Workers = ReadonlySet<WorkerProcess>

/**
 * Workers accept from one shared socket. By node:cluster's default the primary accepts and hands out. Then a worker's
 * death leaves clients hanging whose connection is on its way, and a frozen worker gets more. New connections also cost
 * twice as much (3,400 instead of 7,000 a second).
 */
function acceptInWorkers(): void {
  if (process.env.NODE_CLUSTER_SCHED_POLICY === undefined) cluster.schedulingPolicy = cluster.SCHED_NONE
}

const describeEnd = ({ code, signal, failure }: WorkerEnd): string =>
  failure?.message ?? (signal === null ? `exit code ${code}` : signal)

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
