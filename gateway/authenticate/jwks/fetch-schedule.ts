export type FetchState = Readonly<{
  endedAtMs: number | undefined
  failures: number
  isFetched: boolean
  unknownKeyAtMs: number
}>

export const noFetches: FetchState = {
  endedAtMs: undefined,
  failures: 0,
  isFetched: false,
  unknownKeyAtMs: Number.NEGATIVE_INFINITY,
}

export const afterFetch = (state: FetchState, isGood: boolean, endedAtMs: number): FetchState => ({
  ...state,
  endedAtMs,
  failures: isGood ? 0 : state.failures + 1,
  isFetched: state.isFetched || isGood,
})

/** A failing issuer is asked no more often than this, whatever the reason or the rate of unknown keys (SPEC 2.4). */
const intervalMs = 30_000

/** Without any keys all tokens are refused, so a gateway that starts before its issuer retries sooner. */
const firstRetryMs = 1_000

export const isIssuerUp = ({ failures }: FetchState): boolean => failures === 0

export type ScheduleInput = Readonly<{
  nowMs: number
  refreshMs: number
  hasHadKeys: boolean
}>

export function untilRefreshMs(state: FetchState, { nowMs, refreshMs, hasHadKeys }: ScheduleInput): number {
  if (state.endedAtMs === undefined) return 0
  const waitMs = isIssuerUp(state) ? refreshMs : retryMs(state.failures, hasHadKeys)
  // Counted from the fetch's end, so that a hanging issuer is not asked again right after the time-out.
  return state.endedAtMs + waitMs - nowMs
}

export function mayFetchForUnknownKey(state: FetchState, input: ScheduleInput): boolean {
  if (isIssuerUp(state)) return input.nowMs - state.unknownKeyAtMs >= intervalMs
  return untilRefreshMs(state, input) <= 0
}

const retryMs = (failures: number, hasHadKeys: boolean): number =>
  hasHadKeys ? intervalMs : Math.min(intervalMs, firstRetryMs * 2 ** (failures - 1))
