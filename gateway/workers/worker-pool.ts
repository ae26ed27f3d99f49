import cluster from 'node:cluster'
import { ReportedError } from '../configuration/failure.ts'
import { guarded } from '../fault/guarded.ts'
import type { Log } from '../observe/log/log.ts'
import { createStanding } from './group-addresses.ts'
import type { Assignment, DrainTimes, ListenerAddresses } from './messages.ts'
import { monitorLiveness } from './monitor-liveness.ts'
import { createRestartBackoff } from './restart-backoff.ts'
import { forkWorker, type WorkerEnd, type WorkerProcess } from './worker-process.ts'

/** Workers in a fixed number of places, each filled again when its worker dies. */
export type WorkerPool = Readonly<{
  /** Resolves once every place has a worker that serves. */
  started: Promise<ListenerAddresses>
  serving: () => readonly WorkerProcess[]
  /** Ends all of them in order; rejects when one had to be killed or ended badly. */
  drain: (times: DrainTimes) => Promise<void>
}>

export type WorkerPoolOptions = Readonly<{
  size: number
  listeners: Assignment['listeners']
  log: Log
  monotonicMs: () => number
  /** A worker that has not answered for this long is killed. */
  silenceMs: number
  onDeath: (worker: WorkerProcess) => void
  onRestart: () => void
  /** Told once, when it makes no sense to go on. */
  onFailure: (error: Error) => void
}>

/** So many deaths at the start, one after the other, and the next one would be no better. */
const maxStartFailures = 5

/** What a worker may take beyond the drain's own time, for its last writes. */
const graceMs = 5_000

/** The workers of the moment, and how far the pool has come. */
type PoolState = {
  readonly living: Set<WorkerProcess>
  readonly serving: Set<WorkerProcess>
  isStarted: boolean
  isEnding: boolean
}

/** Fills every place, and keeps it filled. No worker outlives this process. */
export function startWorkerPool(options: WorkerPoolOptions): WorkerPool {
  acceptInWorkers()
  const standing = createStanding(options.listeners)
  const pool: PoolState = { living: new Set(), serving: new Set(), isStarted: false, isEnding: false }
  let tellStart: (addresses: ListenerAddresses) => void = () => undefined
  const started = new Promise<ListenerAddresses>((resolve) => {
    tellStart = resolve
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
    const worker = forkWorker({ number, listeners: standing.listeners() })
    pool.living.add(worker)
    void worker.served.then((addresses) => {
      if (!standing.accept(addresses)) {
        // It stands where no client looks for it.
        worker.kill()
        return
      }
      noteServing(worker, pool, options)
      if (pool.serving.size < options.size) return
      pool.isStarted = true
      tellStart(addresses)
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
  log.info({ worker: number, pid }, 'worker serves')
  void monitorLiveness(worker, silenceMs, () => {
    log.error({ worker: number, pid }, 'worker is silent, and is killed')
    worker.kill()
  })
}

type PoolActions = Readonly<{ start: (number: number) => WorkerProcess; fail: (error: Error) => void }>

/** Starts a worker in this place, and another each time one has died, until the pool ends. */
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
    log.error({ worker: number, pid: worker.pid, ...end, delayMs }, 'worker died; another takes its place')
    // Its own words are better than anything we could say, and would be the same the next time.
    if (end.failure && !pool.isStarted) return fail(new ReportedError(end.failure))
    if (quickDeaths >= maxStartFailures && (!pool.isStarted || pool.serving.size === 0))
      return fail(new Error(`worker ${number} ended ${quickDeaths} times soon after its start (${describeEnd(end)})`))
    await sleep(delayMs)
    if (pool.isEnding) return
    onRestart()
  }
}

/** What a worker does before it serves is nobody's loss; one that has served must end well. */
async function endAll(living: Workers, serving: Workers, times: DrainTimes): Promise<void> {
  for (const worker of living) worker.drain(times)
  const ends = Promise.all([...serving].map(({ ended }) => ended))
  await Promise.all([...living].map(({ ended }) => ended))
  // A worker with a thread that does not come back ends its drain by this signal (end-process.ts).
  const bad = (await ends).find(({ code, signal }) => code !== 0 && signal !== 'SIGTERM')
  if (bad) throw new Error(`a worker did not drain (${describeEnd(bad)})`)
}

type Workers = ReadonlySet<WorkerProcess>

/**
 * Workers accept for themselves, from one shared socket. If the primary accepted and handed out, node:cluster's
 * default, a worker's death would leave clients hanging whose connection was on its way to it, a frozen worker would
 * be handed more, and new connections would cost twice as much (measured: 3,400 instead of 7,000 a second).
 */
function acceptInWorkers(): void {
  if (process.env.NODE_CLUSTER_SCHED_POLICY === undefined) cluster.schedulingPolicy = cluster.SCHED_NONE
}

const describeEnd = ({ code, signal, failure }: WorkerEnd): string =>
  failure?.message ?? (signal === null ? `exit code ${code}` : signal)

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
