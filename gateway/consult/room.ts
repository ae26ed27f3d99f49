import { GatewayError } from '../errors/gateway-error.ts'
import { createTurns } from '../lib/turns.ts'

export type RoomOptions = Readonly<{
  maxInFlight: number
  maxPerOwner: number
  deadlineMs: number
  clock: RoomClock
}>

export type RoomClock = Readonly<{ monotonicMs: () => number; after: (ms: number, work: () => void) => () => void }>

export type Room = Readonly<{
  enter: <Result>(owner: string, work: (withinMs: number) => Promise<Result>) => Promise<Result>
  countWaiting: () => number
}>

type Waiter = Readonly<{ owner: string; isWaiting: () => boolean; begin: () => void; giveUp: () => void }>

type Share = { taken: number; line: Waiter[] }

const mostWaiting = 4_096

const linePerShare = 16

export function createRoom({ maxInFlight, maxPerOwner, deadlineMs, clock }: RoomOptions): Room {
  const { monotonicMs, after } = clock
  const shares = createShares(maxPerOwner)
  let inFlight = 0
  let waiting = 0
  const pump = (): void => {
    while (inFlight < maxInFlight) {
      const next = shares.takeNext()
      if (!next) return
      if (next.isWaiting()) {
        inFlight += 1
        next.begin()
      } else shares.leave(next.owner)
    }
  }
  const end = (owner: string): void => {
    inFlight -= 1
    shares.leave(owner)
    pump()
  }
  return {
    enter: (owner, work) =>
      new Promise((resolve, reject) => {
        const untilMs = monotonicMs() + deadlineMs
        let isWaiting = true
        waiting += 1
        const stopWaiting = (): void => {
          isWaiting = false
          waiting -= 1
          callOff()
        }
        const giveUp = (): void => {
          stopWaiting()
          reject(new GatewayError('pdp_busy', { retryAfter: '1' }))
        }
        const begin = (): void => {
          stopWaiting()
          work(Math.max(1, untilMs - monotonicMs()))
            .then(resolve, reject)
            .finally(() => end(owner))
        }
        const callOff = after(deadlineMs, giveUp)
        const waiter = { owner, isWaiting: () => isWaiting, begin, giveUp }
        if ((waiting > mostWaiting && shares.isOverfull(owner)) || !shares.join(waiter)) giveUp()
        pump()
      }),
    countWaiting: () => waiting,
  }
}

function createShares(maxPerOwner: number) {
  const turns = createTurns<Waiter>(Number.POSITIVE_INFINITY)
  const shares = new Map<string, Share>()
  return {
    takeNext: (): Waiter | undefined => turns.take(1)[0],
    join: (waiter: Waiter): boolean => {
      const share = shares.get(waiter.owner) ?? { taken: 0, line: [] }
      if (share.line.length >= linePerShare * maxPerOwner) return false
      shares.set(waiter.owner, share)
      if (share.taken >= maxPerOwner) share.line.push(waiter)
      else {
        share.taken += 1
        turns.push(waiter.owner, waiter)
      }
      return true
    },
    isOverfull: (owner: string): boolean => {
      const { taken, line } = shares.get(owner) ?? { taken: 0, line: [] }
      return taken + line.length >= mostWaiting / Math.max(1, shares.size)
    },
    leave: (owner: string): void => {
      const share = shares.get(owner)
      const next = share?.line.shift()
      if (next) turns.push(owner, next)
      else if (share) share.taken -= 1
      if (share?.taken === 0) shares.delete(owner)
    },
  }
}
