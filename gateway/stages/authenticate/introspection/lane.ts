import { GatewayError } from '../../../base/errors/gateway-error.ts'
import { createCircuitBreaker } from '../../../base/lib/circuit-breaker.ts'
import { type WaitingClock, WaitingRoom } from '../../../rights/waiting.ts'
import { UnusableAnswer } from '../ask-issuer.ts'

export type LaneOptions = Readonly<{
  maxInFlight: number
  timeoutMs: number
  clock: WaitingClock
}>

export type IntrospectionLane = Readonly<{
  run: <Result>(
    owner: string | undefined,
    ask: (withinMs: number) => Promise<Result>,
    subject?: string,
  ) => Promise<Result>
  countWaiting: () => number
}>

/** Each waiting question holds its request, and a lane is served in its time if the issuer answers a thousand a second. */
const mostWaiting = 1_024

/** The rest of its time is for the question itself. */
const longestWaitShare = 0.5

/** A failed question that had less of its time says nothing about the issuer: it lost the rest among queued guesses. */
const tellingShare = 0.75

/**
 * Questions to one issuer, and its circuit breaker. Those without an owner are about tokens of open exchanges; among them
 * the subjects of the tokens take turns.
 */
export function createLane({ maxInFlight, timeoutMs, clock }: LaneOptions): IntrospectionLane {
  const room = new WaitingRoom({
    places: maxInFlight,
    mostWaiting,
    limit: { waitMs: timeoutMs * longestWaitShare, deadlineMs: timeoutMs, clock },
    busy: () => new GatewayError('lookups_busy', { retryAfter: '1' }),
  })
  const breaker = createCircuitBreaker(clock.monotonicMs)
  const askNow = async <Result>(ask: (withinMs: number) => Promise<Result>, withinMs: number): Promise<Result> => {
    if (!breaker.admits()) throw new GatewayError('issuer_unavailable', { retryAfter: '1' })
    try {
      const result = await ask(withinMs)
      breaker.note(true)
      return result
    } catch (error) {
      const isAnswered = error instanceof UnusableAnswer
      if (isAnswered || withinMs >= timeoutMs * tellingShare) breaker.note(isAnswered)
      throw new GatewayError('issuer_unavailable', { cause: error })
    }
  }
  return {
    run: (owner, ask, subject = '') =>
      room.enter(owner ?? subject, (withinMs) => askNow(ask, withinMs), {
        kind: owner === undefined ? 'recheck' : 'request',
      }),
    countWaiting: () => room.countWaiting,
  }
}
