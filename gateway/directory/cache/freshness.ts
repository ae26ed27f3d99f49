import { factMs } from '../../rights/budget.ts'

export type Freshness = Readonly<{
  isFresh: (askedAtMs: number, maxAgeMs: number) => boolean
  markSynced: (atMs: number) => void
  /**
   * Called for a fact from a server that the change source does not cover. A sync no longer extends the life of earlier
   * facts.
   */
  restrict: () => void
  knownAt: (askedAtMs: number) => number
  now: () => number
}>

/**
 * A fact is as old as the later of two moments: its lookup, and the last moment at which no change had been missed. A
 * connection that dies or freezes ends the syncs, so the bound holds without any detection of the failure.
 */
export function createFreshness(monotonicMs: () => number): Freshness {
  let provenAtMs = Number.NEGATIVE_INFINITY
  let restrictedAtMs = Number.NEGATIVE_INFINITY
  const knownAt = (askedAtMs: number): number =>
    askedAtMs > restrictedAtMs ? Math.max(askedAtMs, provenAtMs) : askedAtMs
  return {
    knownAt,
    isFresh: (askedAtMs, maxAgeMs) => {
      const nowMs = monotonicMs()
      return nowMs - askedAtMs <= maxAgeMs && nowMs - knownAt(askedAtMs) <= factMs
    },
    restrict: () => {
      restrictedAtMs = monotonicMs()
    },
    markSynced: (atMs) => {
      provenAtMs = Math.max(provenAtMs, atMs)
    },
    now: monotonicMs,
  }
}
