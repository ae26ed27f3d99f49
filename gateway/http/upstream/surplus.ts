import type { Surplus } from '../engine.ts'

/** RFC 9110 15.5.9 and Go's `is408Message`: some servers announce so that they close an idle connection. */
export const isCloseNotice = (bytes: Buffer): boolean => /^HTTP\/1\.[01] 408 /.test(bytes.toString('latin1', 0, 13))

/** A backend that lies now and then lies again within it, and so is hardly ever believed. */
const distrustMs = 600_000

/** Origins of clusters, which tenants may write. Beyond it no cluster is believed until some are forgotten. */
const mostOrigins = 10_000

/**
 * Origins that were seen to send bytes beyond an answer. Such bytes may come late, when nothing tells them from the
 * next answer (RFC 9112 9.2). So no connection to such an origin serves a second request.
 */
export class DistrustedOrigins {
  readonly #untilMs = new Map<string, number>()
  readonly #onSurplus: (surplus: Surplus) => void
  readonly #monotonicMs: () => number
  readonly #most: number

  constructor(onSurplus: (surplus: Surplus) => void, monotonicMs: () => number, most: number = mostOrigins) {
    this.#onSurplus = onSurplus
    this.#monotonicMs = monotonicMs
    this.#most = most
  }

  note(surplus: Omit<Surplus, 'isFirst'>): void {
    const { origin } = surplus
    const isFirst = !this.has(origin, false)
    // Entered anew, so that the first entry is the next to end.
    this.#untilMs.delete(origin)
    if (this.#untilMs.size < this.#most || !surplus.isCluster)
      this.#untilMs.set(origin, this.#monotonicMs() + distrustMs)
    this.#onSurplus({ ...surplus, isFirst })
  }

  has(origin: string, isCluster: boolean): boolean {
    if (this.#untilMs.size === 0) return false
    this.#forget()
    return this.#untilMs.has(origin) || (isCluster && this.#untilMs.size >= this.#most)
  }

  get size(): number {
    this.#forget()
    return this.#untilMs.size
  }

  #forget(): void {
    const nowMs = this.#monotonicMs()
    for (const [origin, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) return
      this.#untilMs.delete(origin)
    }
  }
}
