import { isDeepStrictEqual } from 'node:util'
import { guarded } from '../fault/guarded.ts'
import { describeError, type Log } from '../observe/log/log.ts'

export type FilesWatch<Content> = Readonly<{
  /** What the files held when they were read at the start. */
  inUse: Content
  /** Reads them; rejects with an error whose message may be logged. One reading at a time, which may take 5 s. */
  read: (inUse: Content) => Promise<Content>
  /**
   * Takes other contents, or rejects and leaves everything as it was. What gives `held`, or a promise of it, was not taken
   * and is no mistake; it is asked again at each look.
   */
  apply: (content: Content, isTrusting: boolean) => unknown
  /** The files hold what is in use. */
  onUnchanged?: () => void
  /** The error where it is no good; told at every look. */
  noteOutcome: (isGood: boolean, error?: Error) => void
  log: Log
  /** What the log says of each outcome. */
  messages: Readonly<Record<'failed' | 'reloaded' | 'restored', string>>
}>

/** A look that takes longer is told of. */
const readMs = 5_000

/** One look at the files. A trusting one takes what it finds at once: somebody has said that it is whole. */
export type Poll = (isTrusting?: boolean) => Promise<void>

/**
 * Looks, each time it is called, whether files hold something else. It compares what they hold and not their dates,
 * so it follows a rename, a symbolic link that was turned, and an edit within one tick of the file system's clock.
 * What two looks in a row agree on is not half written.
 */
export function createFilesWatch<Content>(watch: FilesWatch<Content>): Poll {
  const { read, apply, noteOutcome, log, messages } = watch
  let { inUse } = watch
  let last: Content | Error = inUse
  let complaint: string | undefined

  const reportError = (error: Error): void => {
    noteOutcome(false, error)
    if (error.message === complaint) return
    complaint = error.message
    log.error({ error: describeError(error) }, messages.failed)
  }
  const readInTime = createTimedRead(read)
  const settle = (): boolean => {
    const hadComplaint = complaint !== undefined
    complaint = undefined
    if (hadComplaint) noteOutcome(true)
    return hadComplaint
  }
  const look = async (isTrusting: boolean): Promise<void> => {
    const found = await readInTime(inUse)
    const isSettled = isTrusting || isDeepStrictEqual(found, last)
    last = found
    if (!isSettled) return
    if (found instanceof Error) return reportError(found)
    if (isDeepStrictEqual(found, inUse)) {
      watch.onUnchanged?.()
      if (settle()) log.info({}, messages.restored)
      return
    }
    try {
      // The contents are good, and the ones before go on: nothing to complain of.
      if ((await apply(found, isTrusting)) === 'held') return void settle()
    } catch (error) {
      return reportError(error as Error)
    }
    inUse = found
    complaint = undefined
    noteOutcome(true)
    log.info({}, messages.reloaded)
  }
  let turn: Promise<void> = Promise.resolve()
  return (isTrusting = false) => {
    // One look at a time: two could adopt in the wrong order.
    const next = turn.then(() => look(isTrusting))
    turn = next.catch(() => undefined)
    return next
  }
}

/** Resolves to the error where a reading fails, or takes too long. */
function createTimedRead<Content>(read: FilesWatch<Content>['read']): (inUse: Content) => Promise<Content | Error> {
  let reading: Promise<Content | Error> | undefined
  return async (inUse) => {
    // A file system that does not answer keeps a thread of the pool: a second reading would keep another.
    reading ??= read(inUse)
      .catch((error: Error) => error)
      .finally(() => {
        reading = undefined
      })
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<Error>((resolve) => {
      timer = setTimeout(() => resolve(new Error(`the files could not be read within ${readMs} ms`)), readMs)
      timer.unref()
    })
    try {
      return await Promise.race([reading, late])
    } finally {
      clearTimeout(timer)
    }
  }
}

/** Works again and again, each time a while after the last has ended, until it is stopped. */
export function repeat(work: () => Promise<void>, pauseMs: number, onBug: (error: unknown) => void): () => void {
  let isStopped = false
  let timer: NodeJS.Timeout
  const wait = (): void => {
    if (isStopped) return
    timer = setTimeout(
      guarded('process', () => work().catch(onBug).finally(wait)),
      pauseMs,
    )
    timer.unref()
  }
  wait()
  return () => {
    isStopped = true
    clearTimeout(timer)
  }
}
