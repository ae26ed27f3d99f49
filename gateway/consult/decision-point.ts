import { GatewayError } from '../errors/gateway-error.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { createBoundedMap } from '../lib/bounded-map.ts'
import { type CircuitBreaker, createCircuitBreaker } from '../lib/circuit-breaker.ts'
import { type PdpAnswer, readDecisions, readFreshMs, UnusableDecision } from './answer.ts'
import type { Consultation, QuestionGroup } from './compose.ts'
import { createHeldAnswers, type HeardSince } from './held-answers.ts'
import { createRoom, type RoomClock } from './room.ts'

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
  clock: RoomClock & Readonly<{ now: () => Date }>
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

type Asking = Readonly<{ decisions: Promise<readonly boolean[]>; askedAtMs: number }>

const rememberedBreakers = 10_000

export function createDecisionPoint(options: DecisionPointOptions): DecisionPoint {
  const { cacheMs, maxEntries, heardSince, clock, onRead, onOutcome, recheckMs } = options
  const { monotonicMs, now } = clock
  const held = createHeldAnswers(maxEntries, monotonicMs, heardSince)
  const asking = new Map<string, Asking>()
  const { askNow, countWaiting } = createQuestioner(options)
  const endOf = (askedAtMs: number, freshMs: number, expiresAtMs: number | undefined): number => {
    const leftMs = expiresAtMs === undefined ? Number.POSITIVE_INFINITY : expiresAtMs - now().getTime()
    return Math.min(askedAtMs + Math.min(cacheMs, freshMs), monotonicMs() + leftMs)
  }
  const askAndKeep = async (key: string, group: QuestionGroup, about: Consultation, askedAtMs: number) => {
    try {
      const { decisions, freshMs } = await askNow(group, about.owner)
      const { tags, expiresAtMs } = about
      held.keep(key, { decisions, askedAtMs, untilMs: endOf(askedAtMs, freshMs, expiresAtMs), tags })
      onOutcome(decisions.every(Boolean) ? 'permitted' : 'refused')
      return decisions
    } catch (caught) {
      const error = GatewayError.from(caught)
      onOutcome(nameOutcome(error), error)
      throw error
    } finally {
      if (asking.get(key)?.askedAtMs === askedAtMs) asking.delete(key)
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
      if (shared && !heardSince(about.tags, shared.askedAtMs)) {
        onRead('coalesced')
        return shared.decisions
      }
      onRead('miss')
      const askedAtMs = monotonicMs()
      const decisions = askAndKeep(key, group, about, askedAtMs)
      asking.set(key, { decisions, askedAtMs })
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
  maxInFlightPerOrganization: maxPerOwner,
  clock,
}: DecisionPointOptions) {
  const room = createRoom({ maxInFlight, maxPerOwner, deadlineMs, clock })
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
  return { askNow, countWaiting: room.countWaiting }
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
