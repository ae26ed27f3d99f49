/** How long facts may be believed that nobody has contradicted. */
export type Freshness = Readonly<{
  /** Whether a fact that was asked for at this moment may still be used. */
  isFresh: (askedAtMs: number, maxAgeMs: number) => boolean
  /** Notes that every change committed before this moment has been heard. */
  markSynced: (atMs: number) => void
  /** A fact came from where no proof says anything about it: none that was asked for so far is kept young by a proof. */
  restrict: () => void
  /** When a fact that was asked for at this moment was last known to be true. */
  knownAt: (askedAtMs: number) => number
  now: () => number
}>

/**
 * Nothing is believed for longer than this without a proof that changes still reach us. The promise is 1 s; the
 * rest is for the way of the request itself.
 */
export const maxUnsyncedMs = 900

/**
 * A fact is as young as the later of two moments: when it was asked for, and when we last knew that no change had
 * been missed. A connection that dies, or freezes without a word, ends the proofs; so the bound holds by itself,
 * and needs nobody to notice.
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
      return nowMs - askedAtMs <= maxAgeMs && nowMs - knownAt(askedAtMs) <= maxUnsyncedMs
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
