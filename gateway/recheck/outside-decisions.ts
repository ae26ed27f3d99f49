import type { Consultation } from '../consult/compose.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { reportFault } from '../fault/guarded.ts'
import { endedBy } from './judge-again.ts'
import type { AccessEnd, OpenExchange } from './open-exchange.ts'

export type ConsultAgain = Readonly<{
  consultAgain: (about: Consultation) => Promise<boolean>
  recheckMsOf: (about: Consultation) => number
}>

export type OutsideDecisionOptions = ConsultAgain & Readonly<{ monotonicMs: () => number; longestUnknownMs: number }>

const retryMs = 1_000

type Standing = { about: Consultation; round: number; dueAtMs: number; askNotBeforeMs: number; asking?: Promise<void> }

export class OutsideDecisions {
  readonly #options: OutsideDecisionOptions
  readonly #onEnd: (open: OpenExchange, end: AccessEnd) => void
  readonly #standings = new WeakMap<OpenExchange, Standing>()

  constructor(options: OutsideDecisionOptions, onEnd: (open: OpenExchange, end: AccessEnd) => void) {
    this.#options = options
    this.#onEnd = onEnd
  }

  noteJudged(open: OpenExchange): Promise<void> | undefined {
    const { consultation: about } = open
    if (!about) {
      open.consultedAtMs = 0
      this.#standings.delete(open)
      return undefined
    }
    const nowMs = this.#options.monotonicMs()
    const known = this.#standings.get(open)
    const isSame = known !== undefined && asksTheSame(known.about, about)
    const standing = known ?? this.#standingOf(open, about)
    standing.about = about
    if (isSame && open.namedAtMs === 0) return undefined
    standing.round += 1
    standing.dueAtMs = Math.min(standing.dueAtMs, nowMs)
    standing.askNotBeforeMs = 0
    this.look(open, nowMs)
    return standing.asking
  }

  look(open: OpenExchange, nowMs: number): void {
    const { consultation: about } = open
    if (!about || open.end || open.isOver) return
    const standing = this.#standingOf(open, about)
    const overdueMs = nowMs - standing.dueAtMs
    if (overdueMs < 0) return
    if (overdueMs > this.#options.longestUnknownMs) this.#onEnd(open, unverified())
    else if (nowMs >= standing.askNotBeforeMs) {
      standing.askNotBeforeMs = Number.POSITIVE_INFINITY
      standing.asking = this.#ask(open, standing, about).catch((error: unknown) => reportFault('timer', error))
    }
  }

  #standingOf(open: OpenExchange, about: Consultation): Standing {
    const known = this.#standings.get(open)
    if (known) return known
    const { consultedAtMs } = open
    const { recheckMsOf, monotonicMs } = this.#options
    const dueAtMs = consultedAtMs > 0 ? consultedAtMs + recheckMsOf(about) : Math.ceil(monotonicMs())
    const standing: Standing = { about, round: 0, dueAtMs, askNotBeforeMs: 0 }
    this.#standings.set(open, standing)
    return standing
  }

  async #ask(open: OpenExchange, standing: Standing, about: Consultation): Promise<void> {
    const { consultAgain, recheckMsOf, monotonicMs } = this.#options
    const { round } = standing
    const askedAtMs = monotonicMs()
    try {
      if (!(await consultAgain(about))) {
        this.#onEnd(open, endedBy(new GatewayError('decision_refused'), false))
        return
      }
    } catch {
      if (!open.isForwarded) this.#onEnd(open, unverified())
      else if (standing.round === round) standing.askNotBeforeMs = monotonicMs() + retryMs
      return
    }
    if (standing.round !== round) return
    standing.dueAtMs = askedAtMs + recheckMsOf(about)
    standing.askNotBeforeMs = 0
  }
}

const asksTheSame = (left: Consultation, right: Consultation): boolean =>
  left.groups.length === right.groups.length &&
  left.groups.every(({ pdp, body }, index) => pdp === right.groups[index]?.pdp && body === right.groups[index].body)

const unverified = (): AccessEnd => ({
  code: 'access_unverified',
  refusal: new GatewayError('pdp_unanswered'),
  isCredential: false,
})
