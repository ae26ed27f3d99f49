import { GatewayError } from '../../errors/gateway-error.ts'
import { createCircuitBreaker } from '../../lib/circuit-breaker.ts'
import { createTurns } from '../../lib/turns.ts'
import { UnusableAnswer } from '../ask-issuer.ts'
import type { Clock } from '../clock.ts'

export type LaneOptions = Readonly<{
  maxInFlight: number
  timeoutMs: number
  clock: Pick<Clock, 'monotonicMs' | 'after'>
}>

export type IntrospectionLane = Readonly<{
  run: <Result>(
    owner: string | undefined,
    ask: (withinMs: number) => Promise<Result>,
    subject?: string,
  ) => Promise<Result>
  countWaiting: () => number
}>

type Waiter = Readonly<{ begin: () => void; giveUp: () => void }>

const mostWaiting = 1_024

const longestWaitShare = 0.5

/** A failed question that had less of its time says nothing about the issuer: it lost the rest among queued guesses. */
const tellingShare = 0.75

/**
 * Owners take turns, so a guesser delays another owner by one question. Questions without an owner, about tokens of open
 * exchanges, have every other turn: very many guessers would otherwise keep a revoked token's exchange open. Among them
 * the subjects of the tokens take turns.
 */
export function createLane({ maxInFlight, timeoutMs, clock }: LaneOptions): IntrospectionLane {
  const { monotonicMs, after } = clock
  const requests = createTurns<Waiter>(mostWaiting)
  const rechecks = createTurns<Waiter>(mostWaiting)
  let isRecheckNext = true
  const breaker = createCircuitBreaker(monotonicMs)
  let inFlight = 0
  const takeNext = (): Waiter | undefined => {
    const isRecheck = requests.size() === 0 || (isRecheckNext && rechecks.size() > 0)
    isRecheckNext = !isRecheck
    return (isRecheck ? rechecks : requests).take(1)[0]
  }
  const pump = (): void => {
    while (inFlight < maxInFlight) {
      const next = takeNext()
      if (!next) return
      next.begin()
    }
  }
  const askNow = async <Result>(ask: (withinMs: number) => Promise<Result>, withinMs: number): Promise<Result> => {
    if (!breaker.admits()) throw new GatewayError('issuer_unavailable', { retryAfter: '1' })
    inFlight += 1
    try {
      const result = await ask(Math.max(1, withinMs))
      breaker.note(true)
      return result
    } catch (error) {
      const isAnswered = error instanceof UnusableAnswer
      if (isAnswered || withinMs >= timeoutMs * tellingShare) breaker.note(isAnswered)
      throw new GatewayError('issuer_unavailable', { cause: error })
    } finally {
      inFlight -= 1
      pump()
    }
  }
  return {
    run: (owner, ask, subject = '') =>
      new Promise((resolve, reject) => {
        const untilMs = monotonicMs() + timeoutMs
        let isOver = false
        const giveUp = (): void => {
          callOff()
          isOver = true
          reject(new GatewayError('lookups_busy', { retryAfter: '1' }))
        }
        const begin = (): void => {
          if (isOver) return
          callOff()
          askNow(ask, untilMs - monotonicMs()).then(resolve, reject)
        }
        const callOff = after(timeoutMs * longestWaitShare, giveUp)
        const waiting = owner === undefined ? rechecks : requests
        waiting.push(owner ?? subject, { begin, giveUp })?.giveUp()
        pump()
      }),
    countWaiting: () => requests.size() + rechecks.size(),
  }
}
