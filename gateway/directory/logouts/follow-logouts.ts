import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Awaitable } from '../../base/lib/awaitable.ts'
import { factMs } from '../../rights/budget.ts'
import { HeardLog, UnreadChanges } from '../../rights/heard.ts'
import { logoutRetryMs } from '../../rights/paces.ts'
import type { Freshness } from '../cache/freshness.ts'
import { followRows } from '../follow-rows.ts'
import type { Logout } from '../logout.ts'

export type LogoutPage = Readonly<{ horizon: number; logouts: readonly Logout[] }>

export type FollowLogoutsOptions = Readonly<{
  readSince: (since: number) => Promise<LogoutPage>
  knownAt: Freshness['knownAt']
  monotonicMs: () => number
  isCovered: (error: unknown, knownAtMs: number) => boolean
  onLogouts: (logouts: readonly Logout[]) => void
  onFailed: (error: unknown) => void
}>

export type LogoutFollower = Readonly<{
  look: (from: 'changes' | 'start') => void
  requireFresh: () => Awaitable<void>
  /** The moment of the first logout that was heard and is not read yet; infinity where all are read. */
  unreadSinceMs: () => number
  stop: () => void
}>

/** Keeps the logouts of the database known here. A request goes on only while the last read of them is young enough. */
export function followLogouts(options: FollowLogoutsOptions): LogoutFollower {
  const { knownAt, monotonicMs, isCovered, onFailed } = options
  const pages = createPages(options)
  const unread = new UnreadChanges()
  let readAtMs: number | undefined
  let failed: Readonly<{ error: unknown; atMs: number }> | undefined
  const reads = createNextRead()
  const read = async (): Promise<void> => {
    const askedAtMs = monotonicMs()
    unread.beginRead()
    await pages.read()
    readAtMs = askedAtMs
    unread.endRead()
    failed = undefined
    reads.end(askedAtMs)
  }
  const fail = (error: unknown): void => {
    failed = { error, atMs: monotonicMs() }
    reads.fail(error)
    onFailed(error)
  }
  const rows = followRows({ read, isNeeded: () => true, knownAt, monotonicMs, onFailed: fail })
  const knownAtMs = (): number | undefined =>
    readAtMs === undefined ? undefined : Math.min(knownAt(readAtMs), unread.firstMs)
  const isFresh = (): boolean => {
    const atMs = knownAtMs()
    return atMs !== undefined && monotonicMs() - atMs <= factMs
  }
  const orCovered = (error: unknown): void => {
    const atMs = knownAtMs()
    if (atMs !== undefined && isCovered(error, atMs)) return
    throw error instanceof GatewayError ? error : new GatewayError('directory_unavailable', { cause: error })
  }
  return {
    look: (from) => {
      if (from === 'start') pages.startAgain()
      unread.note(monotonicMs())
      rows.look()
    },
    requireFresh: () => {
      if (isFresh()) return undefined
      if (failed && monotonicMs() - failed.atMs < logoutRetryMs) return orCovered(failed.error)
      const answered = reads.next(monotonicMs())
      rows.look()
      return answered.catch(orCovered)
    },
    unreadSinceMs: () => unread.firstMs,
    stop: () => {
      rows.stop()
      reads.fail(new GatewayError('gateway_draining'))
    },
  }
}

function createPages({ readSince, onLogouts }: Pick<FollowLogoutsOptions, 'readSince' | 'onLogouts'>) {
  let since = 0
  const starts = new HeardLog()
  const readPage = async (): Promise<void> => {
    const began = starts.position
    const { horizon, logouts } = await readSince(since)
    onLogouts(logouts)
    // A start that came meanwhile reads all of them again: the horizon of this page would skip them.
    if (!starts.anySince(began)) since = horizon
  }
  return {
    startAgain: (): void => {
      since = 0
      starts.noteUnnamed()
    },
    read: async (): Promise<void> => {
      const isWhole = since === 0
      await readPage()
      if (isWhole) await readPage()
    },
  }
}

type Waiter = Readonly<{ sinceMs: number; resolve: () => void; reject: (error: unknown) => void }>

function createNextRead() {
  let waiters: Waiter[] = []
  return {
    next: (sinceMs: number): Promise<void> =>
      new Promise((resolve, reject) => {
        waiters.push({ sinceMs, resolve, reject })
      }),
    end: (askedAtMs: number): void => {
      const waiting = waiters
      // Facts of a cache may be as old, so a read that began a little before its waiter came serves it too.
      waiters = waiting.filter(({ sinceMs }) => sinceMs - askedAtMs > factMs)
      for (const { sinceMs, resolve } of waiting) if (sinceMs - askedAtMs <= factMs) resolve()
    },
    fail: (error: unknown): void => {
      const waiting = waiters
      waiters = []
      for (const { reject } of waiting) reject(error)
    },
  }
}
