import { GatewayError } from '../../base/errors/gateway-error.ts'
import { reportFault } from '../../base/fault/guarded.ts'
import { OutsideAnswer } from '../../rights/outside.ts'
import { WaitingRoom } from '../../rights/waiting.ts'
import type { Consultation } from '../consult/compose.ts'
import { endedBy } from './judge-again.ts'
import type { AccessEnd, OpenExchange } from './open-exchange.ts'

export type ConsultAgain = Readonly<{
  consultAgain: (about: Consultation) => Promise<boolean>
  recheckMsOf: (about: Consultation) => number
  shareOf: (about: Consultation) => number
}>

export type OutsideDecisionOptions = ConsultAgain &
  Readonly<{
    monotonicMs: () => number
    longestUnknownMs: number
    /** Whether a request waits for the verdict, so that its question goes at once and only once. */
    isAwaited: (open: OpenExchange) => boolean
  }>

type Consulted = {
  about: Consultation
  /** Whether the decision points said yes to this question, and not only to an earlier one. */
  isYes: boolean
  round: number
  readonly answer: OutsideAnswer
  asking: Promise<void> | undefined
}

export class OutsideDecisions {
  readonly #options: OutsideDecisionOptions
  readonly #onEnd: (open: OpenExchange, end: AccessEnd) => void
  readonly #standings = new WeakMap<OpenExchange, Consulted>()
  /** Half an organization's share of each decision point is for what is open, and half for its requests. */
  readonly #room = new WaitingRoom({
    places: Number.POSITIVE_INFINITY,
    busy: () => new GatewayError('pdp_busy', { retryAfter: '1' }),
  })

  constructor(options: OutsideDecisionOptions, onEnd: (open: OpenExchange, end: AccessEnd) => void) {
    this.#options = options
    this.#onEnd = onEnd
  }

  noteJudged(open: OpenExchange): Promise<void> | undefined {
    const { consultation: about } = open
    if (!about) {
      this.#standings.delete(open)
      return undefined
    }
    const nowMs = this.#options.monotonicMs()
    const known = this.#standings.get(open)
    const isSame = known !== undefined && asksTheSame(known.about, about)
    // A question that was never looked at is new, or its opening is younger than the next look: it is asked now.
    const standing = known ?? this.#begin(open, about, nowMs)
    standing.about = about
    standing.isYes &&= isSame
    if (isSame && !open.isNamed) {
      if (standing.isYes) open.settlePending()
      return standing.asking
    }
    standing.round += 1
    standing.answer.expire(nowMs)
    this.look(open, nowMs)
    return standing.asking
  }

  look(open: OpenExchange, nowMs: number): void {
    const { consultation: about } = open
    if (!about || open.end || open.isOver) return
    // Only the question of the opening is looked at before it was judged, and the opening has its yes.
    const standing =
      this.#standings.get(open) ?? this.#begin(open, about, open.openedAtMs + this.#options.recheckMsOf(about))
    const state = standing.answer.stateAt(nowMs)
    if (state === 'lost') this.#onEnd(open, unverified())
    else if (state === 'due') {
      standing.answer.noteAsked()
      const asking = this.#ask(open, standing, about)
        .catch((error: unknown) => reportFault('timer', error))
        .finally(() => {
          if (standing.asking === asking) standing.asking = undefined
        })
      standing.asking = asking
    }
  }

  #begin(open: OpenExchange, about: Consultation, dueAtMs: number): Consulted {
    const answer = new OutsideAnswer(dueAtMs, this.#options.longestUnknownMs)
    const standing: Consulted = { about, isYes: true, round: 0, answer, asking: undefined }
    this.#standings.set(open, standing)
    return standing
  }

  async #ask(open: OpenExchange, standing: Consulted, about: Consultation): Promise<void> {
    const { consultAgain, recheckMsOf, monotonicMs, isAwaited } = this.#options
    const { round } = standing
    let askedAtMs = monotonicMs()
    try {
      const askInTurn = async (): Promise<boolean> => {
        askedAtMs = monotonicMs()
        return open.end !== undefined || open.isOver || standing.round !== round || consultAgain(about)
      }
      const isYes = await (isAwaited(open)
        ? askInTurn()
        : this.#room.enter(about.owner, askInTurn, { share: this.#options.shareOf(about) / 2 }))
      if (!isYes) {
        this.#onEnd(open, endedBy(new GatewayError('decision_refused'), false))
        return
      }
    } catch {
      if (isAwaited(open)) this.#onEnd(open, unverified())
      else if (standing.round === round) standing.answer.noteFailed(monotonicMs())
      return
    }
    if (standing.round !== round) {
      // Judged again meanwhile, with the same question: a request that waits goes on, and the later answer counts too.
      if (isAwaited(open) && asksTheSame(standing.about, about)) open.settlePending()
      return
    }
    standing.answer.noteAnswered(askedAtMs + recheckMsOf(about))
    standing.isYes = true
    open.settlePending()
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
