/** How long the store is not asked again after it was found out; one reader at a time tries. */
const retryMs = 1_000

/** Lets facts that were known before stand in while the store cannot be asked. */
export type Grace = Readonly<{
  /** Whether a fact that was known to be true at this moment may still stand in. */
  covers: (knownAtMs: number) => boolean
  /** Whether the store was out a moment ago, so that a fact stands in at once. */
  isOut: () => boolean
  /** Notes what asking the store came to; says whether it was out. */
  noteFailure: (error: unknown) => boolean
  noteSuccess: () => void
  noteUse: () => void
}>

export type GraceOptions = Readonly<{
  /** 0 for none. */
  graceMs: number
  monotonicMs: () => number
  /** Whether an error says that the store cannot be asked, rather than what it answered. */
  isOutage: (error: unknown) => boolean
  /** Told once an outage, with the first fact that stands in. */
  onBegin: () => void
  /** Told when the store answers again, with how many facts stood in. */
  onEnd: (uses: number) => void
}>

export function createGrace({ graceMs, monotonicMs, isOutage, onBegin, onEnd }: GraceOptions): Grace {
  let retryAtMs: number | undefined
  let uses = 0
  return {
    covers: (knownAtMs) => graceMs > 0 && monotonicMs() - knownAtMs <= graceMs,
    isOut: () => {
      if (retryAtMs === undefined) return false
      const nowMs = monotonicMs()
      if (nowMs < retryAtMs) return true
      // This reader tries; the others need not wait for what it finds.
      retryAtMs = nowMs + retryMs
      return false
    },
    noteFailure: (error) => {
      const isOut = isOutage(error)
      if (isOut) retryAtMs = monotonicMs() + retryMs
      return isOut
    },
    noteSuccess: () => {
      retryAtMs = undefined
      if (uses > 0) onEnd(uses)
      uses = 0
    },
    noteUse: () => {
      if (uses === 0) onBegin()
      uses += 1
    },
  }
}
