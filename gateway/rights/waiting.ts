import type { GatewayError } from '../base/errors/gateway-error.ts'
import { Turns } from './turns.ts'

export type WaitingClock = Readonly<{ monotonicMs: () => number; after: (ms: number, work: () => void) => () => void }>

/** How long one waits for its place, and how long it has for the wait and the work together. */
export type WaitingLimit = Readonly<{ waitMs: number; deadlineMs: number; clock: WaitingClock }>

type Work<Result> = (withinMs: number) => Promise<Result>

type Waiter = Readonly<{ owner: string; share: number; begin: () => boolean; giveUp: () => void }>

/** `recheck` is about what is open already, and has every other turn: a flood of `request` keeps nothing revoked open. */
export type WaitingKind = 'request' | 'recheck'

export type WaitingOptions = Readonly<{
  /** Works under way at once, of all owners and of each one. */
  places: number
  share?: number
  mostWaiting?: number
  mostPerOwner?: number
  limit?: WaitingLimit
  /** The refusal of one who gives up. */
  busy: () => GatewayError
}>

export type EnterOptions = Readonly<{ kind?: WaitingKind; share?: number }>

/**
 * The one waiting room of those who ask something that has few places: an issuer, a decision point.
 *
 * Owners (organizations, networks of clients) take turns, so a flood delays another owner by one work.
 *
 * | Gives up | When |
 * |---|---|
 * | the newcomer | at once, if `mostPerOwner` of its owner wait |
 * | the last of the owner with most | at once, if `mostWaiting` wait |
 * | any other | after `waitMs` without a place |
 */
export class WaitingRoom {
  readonly #options: WaitingOptions
  readonly #queues: Readonly<Record<WaitingKind, Turns<Waiter>>>
  #favoured: WaitingKind = 'recheck'
  #underWay = 0
  #waiting = 0

  constructor(options: WaitingOptions) {
    this.#options = options
    const { mostWaiting, mostPerOwner } = options
    const create = () => new Turns<Waiter>({ mostWaiting, mostPerOwner, shareOf: ({ share }) => share })
    this.#queues = { request: create(), recheck: create() }
  }

  get countWaiting(): number {
    return this.#waiting
  }

  /** Does the work once there is a place, which is free again when the work has settled. */
  enter<Result>(owner: string, work: Work<Result>, { kind = 'request', ...own }: EnterOptions = {}): Promise<Result> {
    const { limit, busy, share = Number.POSITIVE_INFINITY } = this.#options
    return new Promise((resolve, reject) => {
      const leftMs = limit ? countDown(limit) : () => Number.POSITIVE_INFINITY
      const run = async (): Promise<Result> => work(Math.max(1, leftMs()))
      let isWaiting = true
      this.#waiting += 1
      const stopWaiting = (): boolean => {
        if (!isWaiting) return false
        isWaiting = false
        this.#waiting -= 1
        callOff?.()
        return true
      }
      const giveUp = (): void => {
        if (stopWaiting()) reject(busy())
      }
      const begin = (): boolean => {
        if (!stopWaiting()) return false
        run()
          .then(resolve, reject)
          .finally(() => this.#end(owner, kind))
        return true
      }
      const callOff = limit?.clock.after(limit.waitMs, giveUp)
      this.#queues[kind].push(owner, { owner, share: own.share ?? share, begin, giveUp })?.giveUp()
      this.#fill()
    })
  }

  #fill(): void {
    while (this.#underWay < this.#options.places) {
      const next = this.#takeNext()
      if (!next) return
      // Counted before, because the work may enter this room itself.
      this.#underWay += 1
      if (next.waiter.begin()) continue
      // One that gave up while it waited holds no place.
      this.#underWay -= 1
      this.#queues[next.kind].release(next.waiter.owner)
    }
  }

  #takeNext(): Readonly<{ waiter: Waiter; kind: WaitingKind }> | undefined {
    for (const kind of [this.#favoured, otherThan(this.#favoured)]) {
      const [waiter] = this.#queues[kind].take(1)
      if (!waiter) continue
      this.#favoured = otherThan(kind)
      return { waiter, kind }
    }
    return undefined
  }

  #end(owner: string, kind: WaitingKind): void {
    this.#underWay -= 1
    this.#queues[kind].release(owner)
    this.#fill()
  }
}

const otherThan = (kind: WaitingKind): WaitingKind => (kind === 'request' ? 'recheck' : 'request')

function countDown({ clock: { monotonicMs }, deadlineMs }: WaitingLimit): () => number {
  const untilMs = monotonicMs() + deadlineMs
  return () => untilMs - monotonicMs()
}
