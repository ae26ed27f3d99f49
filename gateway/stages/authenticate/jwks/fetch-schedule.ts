export type FetchState = Readonly<{
  endedAtMs: number | undefined
  failures: number
  isFetched: boolean
}>

export const noFetches: FetchState = {
  endedAtMs: undefined,
  failures: 0,
  isFetched: false,
}

export const afterFetch = (state: FetchState, isGood: boolean, endedAtMs: number): FetchState => ({
  ...state,
  endedAtMs,
  failures: isGood ? 0 : state.failures + 1,
  isFetched: state.isFetched || isGood,
})

/** An issuer that fails for long is asked no more often than this, whatever the rate of unknown keys (SPEC 2.4). */
const longestRetryMs = 30_000

/** A rotated key is refused until the next fetch, and one failed fetch is often a moment's (SPEC 2.4, within 2 s). */
const firstRetryMs = 1_000

export const isIssuerUp = ({ failures }: FetchState): boolean => failures === 0

export type ScheduleInput = Readonly<{
  nowMs: number
  refreshMs: number
}>

export function untilRefreshMs(state: FetchState, { nowMs, refreshMs }: ScheduleInput): number {
  if (state.endedAtMs === undefined) return 0
  const waitMs = isIssuerUp(state) ? refreshMs : retryMs(state.failures)
  // Counted from the fetch's end, so that a hanging issuer is not asked again right after the time-out.
  return state.endedAtMs + waitMs - nowMs
}

const retryMs = (failures: number): number => Math.min(longestRetryMs, firstRetryMs * 2 ** (failures - 1))
