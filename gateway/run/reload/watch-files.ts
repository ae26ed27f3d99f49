import { isDeepStrictEqual } from 'node:util'
import { guarded } from '../../base/fault/guarded.ts'
import { describeError, type Log } from '../../observe/log/log.ts'

export type FilesWatch<Content> = Readonly<{
  inUse: Content
  /** Rejects with an error whose message may be logged. Never called while a reading is under way. */
  read: (inUse: Content) => Promise<Content>
  /** Takes new contents, or rejects and changes nothing. After `held` the contents are offered again at each poll. */
  apply: (content: Content, isTrusting: boolean) => unknown
  onUnchanged?: () => void
  noteOutcome: (isGood: boolean, error?: Error) => void
  log: Log
  messages: Readonly<Record<'failed' | 'reloaded' | 'restored', string>>
}>

/** A network file system may hang; local files are read in milliseconds. */
const readMs = 5_000

/** One poll of the files. A trusting one, which an operator has asked for, does not wait for a second reading. */
export type Poll = (isTrusting?: boolean) => Promise<void>

/**
 * Compares contents and not dates, so it follows a rename, a replaced symbolic link, and an edit within one
 * clock tick. Two polls in a row must agree: a file may be half written.
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
    // One poll at a time: two could apply their contents in the wrong order.
    const next = turn.then(() => look(isTrusting))
    turn = next.catch(() => undefined)
    return next
  }
}

function createTimedRead<Content>(read: FilesWatch<Content>['read']): (inUse: Content) => Promise<Content | Error> {
  let reading: Promise<Content | Error> | undefined
  return async (inUse) => {
    // A file system that hangs holds a thread of libuv's pool: a second reading would hold another.
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
