import { guarded } from './guarded.ts'

/** An operator or orchestrator waits for the end. A busy machine may need most of it. */
const patienceMs = 1_000

/** A look costs microseconds, and delays the end by no more than this. */
const lookMs = 10

/** At least this many checks, because on a busy machine this process may have had no CPU during the whole wait. */
const leastLooks = 20

/**
 * Ends this process within a second, with this code. `process.exit` joins the threads of libuv's pool, where a write to
 * an unread pipe, a name lookup or a file may hang. If a thread stays busy, a signal ends the process instead: SIGTERM
 * for code 0, SIGKILL for others.
 */
export async function endProcess(code: number): Promise<never> {
  const untilMs = performance.now() + patienceMs
  for (let looks = 0; isPoolBusy() && (looks < leastLooks || performance.now() < untilMs); looks++)
    await new Promise((resolve) => setTimeout(resolve, lookMs))
  if (isPoolBusy()) endBySignal(code)
  process.exit(code)
}

const pooled = new Set(['FSReqCallback', 'FSReqPromise', 'GetAddrInfoReqWrap', 'GetNameInfoReqWrap'])

const isPoolBusy = (): boolean => process.getActiveResourcesInfo().some((kind) => pooled.has(kind))

function endBySignal(code: number): void {
  process.exitCode = code
  process.emit('exit', code)
  const signal = process.exitCode === 0 ? 'SIGTERM' : 'SIGKILL'
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

/**
 * Keeps errors of standard output and standard error from ending the process. Node writes warnings to standard error
 * synchronously and waits for a reader, so warnings go to the log instead.
 */
export function guardOutput(reportWarning: (warning: Error) => void): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on(
      'error',
      guarded('process', () => undefined),
    )
  process.removeAllListeners('warning')
  process.on('warning', guarded('process', reportWarning))
}

/** Ends the process as an uncaught error does, after a drain: for a fault with which it must not go on. */
export function endProcessBy(fault: Error): void {
  queueMicrotask(() => {
    throw fault
  })
}
