import { guarded } from './guarded.ts'

/** How long work under way in another thread may take to end by itself; a busy machine may need most of it. */
const patienceMs = 1_000

const lookMs = 10

/** Looks that are taken in any case: this process may have had no processor for all of its patience. */
const leastLooks = 20

/**
 * Ends this process within a second, with this code. `process.exit` joins the threads of libuv's pool, and
 * so waits for a write to a pipe that is not read, a name that is not resolved, or a file that does not open: where one
 * of them holds a thread, a signal ends the process instead, SIGTERM in place of 0 and SIGKILL in place of others.
 */
export async function endProcess(code: number): Promise<never> {
  const untilMs = performance.now() + patienceMs
  for (let looks = 0; isPoolBusy() && (looks < leastLooks || performance.now() < untilMs); looks++)
    await new Promise((resolve) => setTimeout(resolve, lookMs))
  if (isPoolBusy()) endBySignal(code)
  process.exit(code)
}

/** As Node names what waits for a thread: work on files, and the resolution of names. */
const pooled = new Set(['FSReqCallback', 'FSReqPromise', 'GetAddrInfoReqWrap', 'GetNameInfoReqWrap'])

const isPoolBusy = (): boolean => process.getActiveResourcesInfo().some((kind) => pooled.has(kind))

function endBySignal(code: number): void {
  process.exitCode = code
  // As process.exit does: other processes, and the code, may depend on what listens.
  process.emit('exit', code)
  const signal = process.exitCode === 0 ? 'SIGTERM' : 'SIGKILL'
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}

/**
 * Keeps what standard output and standard error do from ending or stalling a process that serves. Node writes warnings
 * to standard error and waits until they are read: they go to the log instead.
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
