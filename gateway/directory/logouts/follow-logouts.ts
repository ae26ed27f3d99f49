import { GatewayError } from '../../errors/gateway-error.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import { type Freshness, maxUnsyncedMs } from '../cache/freshness.ts'
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
  stop: () => void
}>

const retryMs = 1_000

export function followLogouts(options: FollowLogoutsOptions): LogoutFollower {
  const { readSince, knownAt, monotonicMs, isCovered, onLogouts, onFailed } = options
  let since = 0
  let readAtMs: number | undefined
  let toldAtMs: number | undefined
  let failed: Readonly<{ error: unknown; atMs: number }> | undefined
  const reads = createNextRead()
  const read = async (): Promise<void> => {
    const askedAtMs = monotonicMs()
    const isWhole = since === 0
    await readPage()
    // Pages of a whole read are of different moments.
    if (isWhole) await readPage()
    readAtMs = askedAtMs
    if (toldAtMs !== undefined && toldAtMs <= askedAtMs) toldAtMs = undefined
    failed = undefined
    reads.end()
  }
  const readPage = async (): Promise<void> => {
    const asked = since
    const { horizon, logouts } = await readSince(asked)
    onLogouts(logouts)
    if (since === asked) since = horizon
  }
  const fail = (error: unknown): void => {
    failed = { error, atMs: monotonicMs() }
    reads.end(error)
    onFailed(error)
  }
  const rows = followRows({ read, isNeeded: () => true, knownAt, monotonicMs, onFailed: fail })
  const knownAtMs = (): number | undefined =>
    readAtMs === undefined ? undefined : Math.min(knownAt(readAtMs), toldAtMs ?? Number.POSITIVE_INFINITY)
  const isFresh = (): boolean => {
    const atMs = knownAtMs()
    return atMs !== undefined && monotonicMs() - atMs <= maxUnsyncedMs
  }
  const orCovered = (error: unknown): void => {
    const atMs = knownAtMs()
    if (atMs !== undefined && isCovered(error, atMs)) return
    throw error instanceof GatewayError ? error : new GatewayError('directory_unavailable', { cause: error })
  }
  return {
    look: (from) => {
      if (from === 'start') since = 0
      toldAtMs ??= monotonicMs()
      rows.look()
    },
    requireFresh: () => {
      if (isFresh()) return undefined
      if (failed && monotonicMs() - failed.atMs < retryMs) return orCovered(failed.error)
      const answered = reads.next()
      rows.look()
      return answered.catch(orCovered)
    },
    stop: () => {
      rows.stop()
      reads.end(new GatewayError('gateway_draining'))
    },
  }
}

function createNextRead() {
  let waiters: ((error?: unknown) => void)[] = []
  return {
    next: (): Promise<void> =>
      new Promise((resolve, reject) => {
        waiters.push((error) => (error === undefined ? resolve() : reject(error)))
      }),
    end: (error?: unknown): void => {
      const waiting = waiters
      waiters = []
      for (const settle of waiting) settle(error)
    },
  }
}
