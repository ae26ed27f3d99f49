import { guarded } from '../../../base/fault/guarded.ts'
import type { Clock } from '../clock.ts'
import {
  afterFetch,
  type FetchState,
  isIssuerUp,
  noFetches,
  type ScheduleInput,
  untilRefreshMs,
} from './fetch-schedule.ts'
import type { KeyCache } from './key-cache.ts'
import type { StoredKeys } from './store.ts'
import type { UnknownKeyBudget } from './unknown-key-budget.ts'
import { usableKeys } from './usable-keys.ts'

export type FetchReason = 'refresh' | 'unknown-key'

export type LoadKeys = (request: Readonly<{ reason: FetchReason; signal: AbortSignal }>) => Promise<readonly unknown[]>

export type KeyEvent =
  | Readonly<{ kind: 'fetched' }>
  | Readonly<{ kind: 'fetch-failed'; error: unknown }>
  | Readonly<{ kind: 'recalled'; ageMs: number }>
  | Readonly<{ kind: 'store-failed'; error: unknown }>

export type RefresherOptions = Readonly<{
  cache: KeyCache
  budget: UnknownKeyBudget
  stored: StoredKeys
  refreshMs: number
  clock: Clock
  onEvent: (event: KeyEvent) => void
  onEnd: () => void
  signal: AbortSignal
}>

export type Refresher = Readonly<{
  refresh: () => Promise<boolean>
  askForUnknownKey: (clientAddress: string | undefined) => void
  isUnderWay: () => boolean
  isIssuerUp: () => boolean
}>

export function createRefresher(load: LoadKeys, options: RefresherOptions): Refresher {
  const { cache, budget, refreshMs, clock, onEvent, onEnd, signal } = options
  let state: FetchState = noFetches
  let fetching: Promise<boolean> | undefined
  const timer = createTimer(clock, signal)

  const readInput = (): ScheduleInput => ({
    nowMs: clock.monotonicMs(),
    refreshMs,
  })
  const schedule = (): void => {
    timer.clear()
    if (signal.aborted || fetching) return
    const waitMs = untilRefreshMs(state, readInput())
    if (waitMs <= 0) void refresh()
    else timer.set(waitMs, schedule)
  }
  const recollection = createRecollection(options, () => state.isFetched)

  const fetchOnce = async (reason: FetchReason): Promise<boolean> => {
    let isGood = false
    try {
      const keys = usableKeys(await load({ reason, signal }))
      signal.throwIfAborted()
      const isChanged = cache.update(keys, clock.monotonicMs())
      if (reason === 'refresh') budget.noteRefresh(isChanged, clock.monotonicMs())
      isGood = true
      onEvent({ kind: 'fetched' })
      options.stored.save(keys).catch((error: unknown) => onEvent({ kind: 'store-failed', error }))
    } catch (error) {
      if (!signal.aborted) onEvent({ kind: 'fetch-failed', error })
    }
    state = afterFetch(state, isGood, clock.monotonicMs())
    return isGood
  }
  const fetchShared = (reason: FetchReason): Promise<boolean> => {
    recollection.begin()
    fetching ??= fetchOnce(reason).finally(() => {
      fetching = undefined
      schedule()
      onEnd()
    })
    return fetching
  }
  const refresh = (): Promise<boolean> => fetchShared('refresh')

  return {
    refresh,
    askForUnknownKey: (clientAddress) => {
      if (signal.aborted || fetching) return
      const input = readInput()
      const isDue = isIssuerUp(state) ? budget.take(clientAddress, input.nowMs) : untilRefreshMs(state, input) <= 0
      if (isDue) void fetchShared('unknown-key')
    },
    isUnderWay: () => fetching !== undefined || (recollection.isUnderWay() && !state.isFetched),
    isIssuerUp: () => isIssuerUp(state),
  }
}

function createTimer(clock: Clock, signal: AbortSignal) {
  let callOff = (): void => {}
  const clear = (): void => callOff()
  signal.addEventListener('abort', guarded('issuer', clear), { once: true })
  return {
    clear,
    set: (waitMs: number, work: () => void): void => {
      callOff = clock.after(waitMs, work)
    },
  }
}

/** Reads the stored keys beside each fetch until that has worked once, or the issuer has answered. */
function createRecollection(options: RefresherOptions, isFetched: () => boolean) {
  const { cache, stored: memory, clock, onEvent, onEnd, signal } = options
  let state: 'due' | 'under-way' | 'done' = 'due'
  const recall = async (): Promise<void> => {
    try {
      const stored = await memory.load()
      state = 'done'
      if (!stored || isFetched() || signal.aborted) return
      cache.update(stored.keys, stored.fetchedAtMs)
      onEvent({ kind: 'recalled', ageMs: clock.monotonicMs() - stored.fetchedAtMs })
    } catch (error) {
      state = 'due'
      if (!signal.aborted) onEvent({ kind: 'store-failed', error })
    }
  }
  return {
    begin: (): void => {
      if (state !== 'due' || isFetched()) return
      state = 'under-way'
      void recall().finally(onEnd)
    },
    isUnderWay: () => state === 'under-way',
  }
}
