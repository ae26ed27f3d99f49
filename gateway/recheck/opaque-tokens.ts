import type { OauthProof, OpaqueAnswer } from '../authenticate/principal.ts'
import { nameIdentity } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { reportFault } from '../fault/guarded.ts'
import { endedBy } from './judge-again.ts'
import type { AccessEnd, OpenExchange } from './open-exchange.ts'

export type OpaqueTokenOptions = Readonly<{
  now: () => Date
  monotonicMs: () => number
  longestUnknownMs: number
}>

const longestRetryMs = 1_000

type Asking = { restsUntilMs: number; untilMs: number }

export class OpaqueTokens {
  readonly #options: OpaqueTokenOptions
  readonly #onEnd: (open: OpenExchange, end: AccessEnd) => void
  readonly #asking = new WeakMap<OpenExchange, Asking>()

  constructor(options: OpaqueTokenOptions, onEnd: (open: OpenExchange, end: AccessEnd) => void) {
    this.#options = options
    this.#onEnd = onEnd
  }

  look(open: OpenExchange, nowMs: number): void {
    const { proof } = open
    if (proof?.kind !== 'oauth' || !proof.answer) return
    const { askedAtMs, freshMs, askAgain } = proof.answer
    const overdueMs = nowMs - askedAtMs - freshMs
    if (overdueMs < 0) return
    const asking = this.#asking.get(open) ?? { restsUntilMs: 0, untilMs: proof.expiresAtMs }
    // Past its expiry the token is inactive in any case, and `endAtExpiry` decides.
    if (this.#options.now().getTime() >= asking.untilMs) return
    if (overdueMs > this.#options.longestUnknownMs) this.#onEnd(open, unverified())
    else if (nowMs >= asking.restsUntilMs) {
      asking.restsUntilMs = Number.POSITIVE_INFINITY
      this.#asking.set(open, asking)
      this.#ask(open, asking, askAgain).catch((error: unknown) => reportFault('timer', error))
    }
  }

  async #ask(open: OpenExchange, asking: Asking, askAgain: OpaqueAnswer['askAgain']): Promise<void> {
    try {
      const { proof } = await askAgain()
      asking.restsUntilMs = 0
      asking.untilMs = Math.max(asking.untilMs, proof.expiresAtMs)
      this.#renew(open, proof)
    } catch (error) {
      const refusal = GatewayError.from(error)
      if (refusal.status === 401) this.#onEnd(open, endedBy(refusal, true))
      const { monotonicMs, longestUnknownMs } = this.#options
      asking.restsUntilMs = monotonicMs() + Math.min(longestRetryMs, longestUnknownMs / 4)
    }
  }

  #renew(open: OpenExchange, fresh: OauthProof): void {
    const { proof } = open
    if (proof?.kind !== 'oauth') return
    if (proof.issuer !== fresh.issuer || proof.subject !== fresh.subject) {
      this.#onEnd(open, endedBy(new GatewayError('user_gone'), true))
      return
    }
    const isSame = nameIdentity(proof) === nameIdentity(fresh) && proof.abilities === fresh.abilities
    // Its facts are being read by the old name; the next look finds the answer in the cache.
    if (!isSame && open.queue !== undefined) return
    open.proof = fresh
    open.isStale ||= !isSame
  }
}

const unverified = (): AccessEnd => ({
  code: 'access_unverified',
  refusal: new GatewayError('issuer_unavailable'),
  isCredential: false,
})
