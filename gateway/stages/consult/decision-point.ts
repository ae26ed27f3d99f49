import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Awaitable } from '../../base/lib/awaitable.ts'
import { createBoundedMap } from '../../base/lib/bounded-map.ts'
import { type CircuitBreaker, createCircuitBreaker } from '../../base/lib/circuit-breaker.ts'
import { type WaitingClock, WaitingRoom } from '../../rights/waiting.ts'
import { type PdpAnswer, readDecisions, readFreshMs, UnusableDecision } from './answer.ts'
import type { Consultation, QuestionGroup } from './compose.ts'
import { type AskedAt, createHeldAnswers, type HeardSince } from './held-answers.ts'

export type PdpOutcome = 'permitted' | 'refused' | 'unanswered' | 'unusable' | 'circuit_open' | 'busy'

export type Endpoint = 'evaluation' | 'evaluations'

export type Post = (endpoint: Endpoint, body: string, withinMs: number) => Promise<PdpAnswer>

export type DecisionPointOptions = Readonly<{
  post: Post
  deadlineMs: number
  cacheMs: number
  recheckMs: number
  maxInFlight: number
  maxInFlightPerOrganization: number
  maxEntries: number
  heardSince: HeardSince
  heardPosition: () => number
  clock: WaitingClock & Readonly<{ now: () => Date }>
  onRead: (result: 'hit' | 'miss' | 'coalesced') => void
  onOutcome: (outcome: PdpOutcome, error?: GatewayError) => void
}>

export type DecisionPoint = Readonly<{
  ask: (group: QuestionGroup, about: Consultation, generation: number) => Awaitable<readonly boolean[]>
  recheckMs: number
  share: number
  countHeld: () => number
  countWaiting: () => number
}>

type Asking = Readonly<{ decisions: Promise<readonly boolean[]>; asked: AskedAt }>

/** One for each organization, so that the failing questions of one cut off no other. Organizations are unbounded, memory is not. */
const rememberedBreakers = 10_000

/** Questions of all organizations; each holds its request and its body meanwhile. */
const mostWaiting = 4_096

/** An organization's line is served within the deadline if an answer takes a sixteenth of it; a longer one waits in vain. */
const linePerShare = 16

export function createDecisionPoint(options: DecisionPointOptions): DecisionPoint {
  const { cacheMs, maxEntries, heardSince, heardPosition, clock, onRead, onOutcome, recheckMs } = options
  const { monotonicMs, now } = clock
  const held = createHeldAnswers(maxEntries, monotonicMs, heardSince)
  const asking = new Map<string, Asking>()
  const { askNow, countWaiting } = createQuestioner(options)
  const endOf = (askedAtMs: number, freshMs: number, expiresAtMs: number | undefined): number => {
    const leftMs = expiresAtMs === undefined ? Number.POSITIVE_INFINITY : expiresAtMs - now().getTime()
    return Math.min(askedAtMs + Math.min(cacheMs, freshMs), monotonicMs() + leftMs)
  }
  const askAndKeep = async (key: string, group: QuestionGroup, about: Consultation, asked: AskedAt) => {
    try {
      const { decisions, freshMs } = await askNow(group, about.owner)
      const { tags, expiresAtMs } = about
      held.keep(key, { decisions, asked, untilMs: endOf(asked.atMs, freshMs, expiresAtMs), tags })
      onOutcome(decisions.every(Boolean) ? 'permitted' : 'refused')
      return decisions
    } catch (caught) {
      const error = GatewayError.from(caught)
      onOutcome(nameOutcome(error), error)
      throw error
    } finally {
      if (asking.get(key)?.asked === asked) asking.delete(key)
    }
  }
  return {
    ask: (group, about, generation) => {
      const key = `${generation} ${group.body}`
      const known = held.find(key)
      if (known) {
        onRead('hit')
        return known
      }
      const shared = asking.get(key)
      // A question that began before a change may be answered with what has changed.
      if (shared && !heardSince(about.tags, shared.asked)) {
        onRead('coalesced')
        return shared.decisions
      }
      onRead('miss')
      const asked = { atMs: monotonicMs(), position: heardPosition() }
      const decisions = askAndKeep(key, group, about, asked)
      asking.set(key, { decisions, asked })
      return decisions
    },
    recheckMs,
    share: options.maxInFlightPerOrganization,
    countHeld: held.size,
    countWaiting,
  }
}

function createQuestioner({
  post,
  deadlineMs,
  maxInFlight,
  maxInFlightPerOrganization: share,
  clock,
}: DecisionPointOptions) {
  const room = new WaitingRoom({
    places: maxInFlight,
    share,
    mostWaiting,
    mostPerOwner: linePerShare * share,
    limit: { waitMs: deadlineMs, deadlineMs, clock },
    busy: () => new GatewayError('pdp_busy', { retryAfter: '1' }),
  })
  const breakers = createBoundedMap<CircuitBreaker>(rememberedBreakers)
  const breakerOf = (owner: string): CircuitBreaker => {
    const breaker = breakers.get(owner) ?? createCircuitBreaker(clock.monotonicMs)
    breakers.set(owner, breaker)
    return breaker
  }
  const askNow = async ({ body, places }: QuestionGroup, owner: string) => {
    const { length: count } = places
    const breaker = breakerOf(owner)
    const answer = await room.enter(owner, async (withinMs) => {
      if (!breaker.admits()) throw new GatewayError('pdp_circuit_open', { retryAfter: '1' })
      return post(count === 1 ? 'evaluation' : 'evaluations', body, withinMs).catch((cause: unknown) => {
        breaker.note(false)
        throw new GatewayError('pdp_unanswered', { cause, retryAfter: '1' })
      })
    })
    const isFailing = answer.status >= 500
    breaker.note(!isFailing)
    try {
      return {
        decisions: readDecisions(answer, count),
        freshMs: readFreshMs(answer.headers) ?? Number.POSITIVE_INFINITY,
      }
    } catch (cause) {
      if (!(cause instanceof UnusableDecision)) throw cause
      throw new GatewayError(isFailing ? 'pdp_unanswered' : 'pdp_unusable', { cause, retryAfter: '1' })
    }
  }
  return { askNow, countWaiting: () => room.countWaiting }
}

function nameOutcome({ exactCause }: GatewayError): PdpOutcome {
  switch (exactCause) {
    case 'pdp_unusable':
      return 'unusable'
    case 'pdp_circuit_open':
      return 'circuit_open'
    case 'pdp_busy':
      return 'busy'
    default:
      return 'unanswered'
  }
}
