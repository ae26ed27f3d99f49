/** What has become of the fetches so far. */
export type FetchState = Readonly<{
  /** When the last one ended; undefined while none has. */
  endedAtMs: number | undefined
  /** In a row, up to the last one. */
  failures: number
  /** Whether one was ever good. */
  isFetched: boolean
  /** When the last one for the sake of an unknown key began. */
  unknownKeyAtMs: number
}>

/** Where every history begins: nothing was asked, so anything may be. */
export const noFetches: FetchState = {
  endedAtMs: undefined,
  failures: 0,
  isFetched: false,
  unknownKeyAtMs: Number.NEGATIVE_INFINITY,
}

/** What is known after one more fetch, whatever it was for. */
export const afterFetch = (state: FetchState, isGood: boolean, endedAtMs: number): FetchState => ({
  ...state,
  endedAtMs,
  failures: isGood ? 0 : state.failures + 1,
  isFetched: state.isFetched || isGood,
})

/** Whatever the rate of unknown keys or the reason to ask, an issuer in trouble is asked no more often (SPEC 2.4). */
const intervalMs = 30_000

/** Without any keys nobody gets in, so a start before the issuer's is tried again sooner. */
const firstRetryMs = 1_000

/** By the last fetch; before the first there is no sign of trouble. */
export const isIssuerUp = ({ failures }: FetchState): boolean => failures === 0

/** The circumstances that a schedule goes by. */
export type ScheduleInput = Readonly<{
  nowMs: number
  refreshMs: number
  /** Whether there have ever been keys here, fetched or recalled; they may be too old by now. */
  hasHadKeys: boolean
}>

/** Milliseconds until the next fetch in the background; none are left once it is due. */
export function untilRefreshMs(state: FetchState, { nowMs, refreshMs, hasHadKeys }: ScheduleInput): number {
  if (state.endedAtMs === undefined) return 0
  const waitMs = isIssuerUp(state) ? refreshMs : retryMs(state.failures, hasHadKeys)
  // From the end of the last one, so that an issuer that hangs is not asked again the moment we gave up.
  return state.endedAtMs + waitMs - nowMs
}

/** Whether a key that nobody knows may cost the issuer a fetch now. */
export function mayFetchForUnknownKey(state: FetchState, input: ScheduleInput): boolean {
  if (isIssuerUp(state)) return input.nowMs - state.unknownKeyAtMs >= intervalMs
  return untilRefreshMs(state, input) <= 0
}

/** 1, 2, 4, 8, 16 and then 30 seconds at a start without keys. */
const retryMs = (failures: number, hasHadKeys: boolean): number =>
  hasHadKeys ? intervalMs : Math.min(intervalMs, firstRetryMs * 2 ** (failures - 1))
