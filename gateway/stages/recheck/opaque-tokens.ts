import { GatewayError } from '../../base/errors/gateway-error.ts'
import { reportFault } from '../../base/fault/guarded.ts'
import { nameIdentity } from '../../directory/directory.ts'
import { OutsideAnswer } from '../../rights/outside.ts'
import type { OauthProof, OpaqueAnswer } from '../authenticate/principal.ts'
import { endedBy } from './judge-again.ts'
import type { AccessEnd, OpenExchange } from './open-exchange.ts'

export type OpaqueTokenOptions = Readonly<{
  now: () => Date
  monotonicMs: () => number
  longestUnknownMs: number
  knownAt: (readAtMs: number) => number
}>

type Asking = { readonly answer: OutsideAnswer; untilMs: number }

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
    const { askAgain } = proof.answer
    // Thousands are open, and most are never asked about: the state is kept from the first question on.
    const asking = this.#asking.get(open) ?? this.#begin(proof.answer, proof.expiresAtMs)
    const state = asking.answer.stateAt(nowMs)
    if (state === 'held') return
    // Past its expiry the token is inactive in any case, and `endAtExpiry` decides.
    if (this.#options.now().getTime() >= asking.untilMs) return
    if (state === 'lost') this.#onEnd(open, unverified())
    else if (state === 'due') {
      asking.answer.noteAsked()
      this.#asking.set(open, asking)
      this.#ask(open, asking, askAgain).catch((error: unknown) => reportFault('timer', error))
    }
  }

  #begin(answer: OpaqueAnswer, untilMs: number): Asking {
    return { answer: new OutsideAnswer(dueAt(answer), this.#options.longestUnknownMs), untilMs }
  }

  async #ask(open: OpenExchange, asking: Asking, askAgain: OpaqueAnswer['askAgain']): Promise<void> {
    try {
      const { proof } = await askAgain()
      asking.untilMs = Math.max(asking.untilMs, proof.expiresAtMs)
      this.#renew(open, proof)
      // Of an answer that could not be taken yet the earlier one stays due, so that the next look asks the cache.
      if (open.proof?.kind === 'oauth' && open.proof.answer) asking.answer.noteAnswered(dueAt(open.proof.answer))
    } catch (error) {
      const refusal = GatewayError.from(error)
      if (refusal.status === 401) this.#onEnd(open, endedBy(refusal, true))
      asking.answer.noteFailed(this.#options.monotonicMs())
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
    if (!isSame && open.queue !== 'none') return
    open.proof = fresh
    if (!isSame) open.markStale(Math.floor(this.#options.knownAt(open.verifiedAtMs)))
  }
}

const dueAt = ({ askedAtMs, freshMs }: OpaqueAnswer): number => askedAtMs + freshMs

const unverified = (): AccessEnd => ({
  code: 'access_unverified',
  refusal: new GatewayError('issuer_unavailable'),
  isCredential: false,
})
