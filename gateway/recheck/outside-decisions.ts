import type { Consultation } from '../consult/compose.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { reportFault } from '../fault/guarded.ts'
import { lengthOf, takeFirst, type WaitingLine } from '../lib/line.ts'
import { endedBy } from './judge-again.ts'
import type { AccessEnd, OpenExchange } from './open-exchange.ts'

export type ConsultAgain = Readonly<{
  consultAgain: (about: Consultation) => Promise<boolean>
  recheckMsOf: (about: Consultation) => number
  shareOf: (about: Consultation) => number
}>

export type OutsideDecisionOptions = ConsultAgain & Readonly<{ monotonicMs: () => number; longestUnknownMs: number }>

const longestRetryMs = 1_000

type Share = { taken: number; readonly line: WaitingLine<() => void> }

type Standing = {
  about: Consultation
  round: number
  dueAtMs: number
  askNotBeforeMs: number
  asking: Promise<void> | undefined
}

export class OutsideDecisions {
  readonly #options: OutsideDecisionOptions
  readonly #onEnd: (open: OpenExchange, end: AccessEnd) => void
  readonly #standings = new WeakMap<OpenExchange, Standing>()
  readonly #shares = new Map<string, Share>()

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
    if (isSame && open.namedAtMs === 0) return standing.asking
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
      const asking = this.#ask(open, standing, about)
        .catch((error: unknown) => reportFault('timer', error))
        .finally(() => {
          if (standing.asking === asking) standing.asking = undefined
        })
      standing.asking = asking
    }
  }

  #standingOf(open: OpenExchange, about: Consultation): Standing {
    const known = this.#standings.get(open)
    if (known) return known
    const { consultedAtMs } = open
    const { recheckMsOf, monotonicMs } = this.#options
    const dueAtMs = consultedAtMs > 0 ? consultedAtMs + recheckMsOf(about) : Math.ceil(monotonicMs())
    const standing: Standing = { about, round: 0, dueAtMs, askNotBeforeMs: 0, asking: undefined }
    this.#standings.set(open, standing)
    return standing
  }

  async #ask(open: OpenExchange, standing: Standing, about: Consultation): Promise<void> {
    const { consultAgain, recheckMsOf, monotonicMs, longestUnknownMs } = this.#options
    const { round } = standing
    let askedAtMs = monotonicMs()
    try {
      const askInTurn = async (): Promise<boolean> => {
        askedAtMs = monotonicMs()
        return open.end !== undefined || open.isOver || standing.round !== round || consultAgain(about)
      }
      const isYes = await (open.isForwarded ? this.#takePlace(about, askInTurn) : askInTurn())
      if (!isYes) {
        this.#onEnd(open, endedBy(new GatewayError('decision_refused'), false))
        return
      }
    } catch {
      if (!open.isForwarded) this.#onEnd(open, unverified())
      else if (standing.round === round)
        standing.askNotBeforeMs = monotonicMs() + Math.min(longestRetryMs, longestUnknownMs / 4)
      return
    }
    if (standing.round !== round) return
    standing.dueAtMs = askedAtMs + recheckMsOf(about)
    standing.askNotBeforeMs = 0
  }

  async #takePlace(about: Consultation, ask: () => Promise<boolean>): Promise<boolean> {
    const { owner } = about
    const share = this.#shares.get(owner) ?? { taken: 0, line: { items: [], next: 0 } }
    this.#shares.set(owner, share)
    if (share.taken < Math.max(1, this.#options.shareOf(about) / 2)) share.taken += 1
    else await new Promise<void>((resolve) => share.line.items.push(resolve))
    try {
      return await ask()
    } finally {
      if (lengthOf(share.line) > 0) takeFirst(share.line)?.()
      else share.taken -= 1
      if (share.taken === 0) this.#shares.delete(owner)
    }
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
