import type { Change } from '../directory/change.ts'
import type { DirectoryFacts, SessionEnd } from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { guarded } from '../fault/guarded.ts'
import { UnorderedList } from '../lib/unordered-list.ts'
import { decides, HeardChanges, LatestChanges } from './heard-changes.ts'
import { findLogout, type JudgeOptions, JudgeQueue } from './judge-queue.ts'
import { type ExchangePage, type ExchangeQuery, matchesFilter, PageOfExchanges } from './list-exchanges.ts'
import { type AccessEnd, OpenExchange, type Opening } from './open-exchange.ts'
import { WithdrawnKeys } from './withdrawn-keys.ts'

export type ExpiryRules = Readonly<{
  endAtExpiry: 'none' | 'websocket' | 'all'
  maxLifeMs: number
  /** The fate of exchanges whose rights cannot be verified: `keep` leaves them open for `unknownMs`. */
  onUnknown: 'keep' | 'end'
  unknownMs: number
}>

export type RecheckOptions = ExpiryRules &
  JudgeOptions &
  Readonly<{
    /** The last moment at which facts that were read then are known to have held. */
    knownAt: (readAtMs: number) => number
    processId: number
    onEnded: (end: AccessEnd, open: OpenExchange) => void
  }>

export type Recheck = Pick<
  OpenExchanges,
  'open' | 'confirm' | 'countHeard' | 'hear' | 'recheckAll' | 'count' | 'list' | 'endSessions' | 'endLogins' | 'stop'
>

const coalesceMs = 10

const sweepMs = 50

/** After a reload most requests end by themselves within this time, and need not be broken off. */
const reloadRestMs = 150

const sliceMs = 5

/** Age of unproven facts at which they are read again: the rest of the second is for the read. */
const readAgainAfterMs = 600

const namedLimitMs = 850

/** With `onUnknown: end`; the rest of the second is for the sweep. */
const unknownLimitMs = 930

const resetAfterMs = 700

const clockStepMs = 500

export class OpenExchanges {
  readonly #options: RecheckOptions
  readonly #open = new UnorderedList<OpenExchange>()
  readonly #latest = new LatestChanges()
  readonly #waiting = new Map<OpenExchange, () => void>()
  readonly #keys: WithdrawnKeys
  readonly #queue: JudgeQueue
  readonly #sweeping: NodeJS.Timeout
  #heard = new HeardChanges()
  #isScanPlanned = false
  #isLogoutScanPlanned = false
  #isSweeping = false
  #isStopped = false
  #staleSinceMs = Number.NEGATIVE_INFINITY
  #wallAheadMs: number
  #opened = 0
  /** Constant, so that the time of an opening does not move from one page of a list to the next. */
  readonly #epochMs: number

  constructor(options: RecheckOptions) {
    this.#options = options
    const finish = (open: OpenExchange, end: AccessEnd): void => this.#finish(open, end)
    this.#keys = new WithdrawnKeys(options.monotonicMs, finish)
    this.#queue = new JudgeQueue(options, { end: finish, keep: (...verdict) => this.#keep(...verdict) })
    this.#wallAheadMs = this.#readWallAhead()
    this.#epochMs = Math.round(this.#wallAheadMs)
    this.#sweeping = setInterval(
      guarded('timer', () => this.#sweep()),
      sweepMs,
    )
    this.#sweeping.unref()
  }

  get count(): number {
    return this.#open.size
  }

  readonly countHeard = (): number => this.#latest.count

  /** Registers an exchange before its first byte goes out. A change since `heard` makes it wait for `confirm`. */
  readonly open = (opening: Opening, heard: number): OpenExchange => {
    const nowMs = Math.ceil(this.#options.monotonicMs())
    // The facts may be as old as a cache allows, so they are read again soon unless a proof covers them.
    const open = new OpenExchange(opening, this.#opened, nowMs, nowMs - readAgainAfterMs)
    this.#opened += 1
    open.expiresAtMs = this.#findExpiry(open, opening)
    this.#open.addSlot(open)
    followEnd(open, this.#leave)
    this.#keys.note(open)
    const hasNewKeys = open.proof?.kind === 'oauth' && !open.proof.isVerifiedByCurrentKeys
    const isSignedOut = findLogout(open, this.#options.hasEnded) !== undefined
    if (hasNewKeys || isSignedOut || this.#latest.mayConcern(open, heard)) open.namedAtMs = nowMs
    return open
  }

  /** Resolves once the exchange was judged on facts that no change has touched; its `end` is then set, or not. */
  readonly confirm = (open: OpenExchange): Promise<void> =>
    new Promise((resolve) => {
      this.#waiting.set(open, resolve)
      this.#queue.add(open)
      this.#queue.read()
    })

  readonly hear = (change: Change): void => {
    if (change.kind === 'everything') {
      this.#latest.add(change)
      this.#markStale()
      return
    }
    if (change.kind === 'logout-token' || !decides(change.kind)) return
    this.#latest.add(change)
    this.#heard.add(change.kind, change.id, Math.ceil(this.#options.monotonicMs()))
    if (this.#isScanPlanned) return
    this.#isScanPlanned = true
    setTimeout(
      guarded('timer', () => this.#scan()),
      coalesceMs,
    ).unref()
  }

  readonly recheckAll = (): void => {
    this.#latest.add({ kind: 'everything' })
    setTimeout(
      guarded('timer', () => this.#markStale()),
      reloadRestMs,
    ).unref()
  }

  readonly list = (query: ExchangeQuery): Promise<ExchangePage> =>
    new Promise((resolve) => {
      const page = new PageOfExchanges(query, { epochMs: this.#epochMs, processId: this.#options.processId })
      this.#visit(
        (open) => page.add(open),
        () => resolve(page.finish()),
      )
    })

  /** Ends exchanges that were open at the moment of an order. `answeredAtMs` is that of the ages. */
  readonly endSessions = (ends: readonly SessionEnd[], answeredAtMs: number): void => {
    if (ends.length === 0) return
    this.#visit(
      (open) => {
        const end = ends.find(
          ({ filter, ageMs }) => open.openedAtMs <= answeredAtMs - ageMs && matchesFilter(open, filter),
        )
        if (end) this.#finish(open, orderedBy(end))
      },
      () => undefined,
    )
  }

  readonly endLogins = (): void => {
    if (this.#isLogoutScanPlanned) return
    this.#isLogoutScanPlanned = true
    const scan = (): void => {
      this.#isLogoutScanPlanned = false
      this.#visit(
        (open) => {
          const end = findLogout(open, this.#options.hasEnded)
          if (end) this.#finish(open, end)
        },
        () => undefined,
      )
    }
    setTimeout(guarded('timer', scan), coalesceMs).unref()
  }

  readonly stop = (): void => {
    this.#isStopped = true
    this.#queue.stop()
    clearInterval(this.#sweeping)
  }

  readonly #leave = (open: OpenExchange, isComplete: boolean): void => {
    this.#open.remove(open)
    open.leave(isComplete)
    this.#settle(open)
  }

  #settle(open: OpenExchange): void {
    if (this.#waiting.size === 0) return
    this.#waiting.get(open)?.()
    this.#waiting.delete(open)
  }

  #findExpiry({ proof, openedAtMs }: OpenExchange, { exchange, permit }: Opening): number {
    const endsAtMs = this.#toMonotonic(proof?.endsAtMs)
    if (endsAtMs === 0) return 0
    const { endAtExpiry, maxLifeMs } = this.#options
    const isWebSocket = exchange.isHandshake && permit.match.route.isWebSocket
    const endsWithJwt = endAtExpiry === 'all' || (endAtExpiry === 'websocket' && isWebSocket)
    return proof?.kind === 'api-token' || endsWithJwt ? endsAtMs : Math.max(endsAtMs, openedAtMs + maxLifeMs)
  }

  #scan(): void {
    this.#isScanPlanned = false
    const heard = this.#heard
    this.#heard = new HeardChanges()
    this.#visit(
      (open) => {
        const namedAtMs = heard.findNaming(open)
        if (namedAtMs === 0) return
        open.namedAtMs = Math.max(open.namedAtMs, namedAtMs)
        this.#queue.add(open)
      },
      () => this.#queue.read(),
    )
  }

  /** Nothing was heard of one exchange alone: `onUnknown` decides about those whose facts cannot be read. */
  #markStale(): void {
    this.#staleSinceMs = this.#options.monotonicMs()
    this.#visit(
      (open) => {
        open.verifiedAtMs = this.#knownAt(open)
        open.isStale = true
      },
      () => this.#sweep(),
    )
  }

  #knownAt({ isStale, verifiedAtMs }: OpenExchange): number {
    return isStale ? verifiedAtMs : Math.floor(this.#options.knownAt(verifiedAtMs))
  }

  #visit(work: (open: OpenExchange) => void, onEnd: () => void): void {
    const { monotonicMs } = this.#options
    const goOn = guarded('timer', (from: number): void => {
      const untilMs = monotonicMs() + sliceMs
      let visited = 0
      const place = this.#open.visitDown(from, (open) => {
        work(open)
        visited += 1
        return visited % 64 !== 0 || monotonicMs() < untilMs
      })
      if (place < 0) onEnd()
      else setImmediate(goOn, place)
    })
    goOn(Number.MAX_SAFE_INTEGER)
  }

  #sweep(): void {
    if (this.#isSweeping || this.#isStopped) return
    this.#isSweeping = true
    this.#keys.look((work, onEnd) => this.#visit(work, onEnd))
    const stepMs = this.#readClockStep()
    const nowMs = this.#options.monotonicMs()
    this.#visit(
      (open) => this.#look(open, nowMs, stepMs),
      () => {
        this.#isSweeping = false
        this.#queue.read()
      },
    )
  }

  #look(open: OpenExchange, nowMs: number, stepMs: number): void {
    if (open.end) {
      if (nowMs - open.endedAtMs > resetAfterMs) open.exchange.reset()
      return
    }
    if (open.expiresAtMs > 0) open.expiresAtMs = Math.max(1, open.expiresAtMs - stepMs)
    if (open.expiresAtMs > 0 && nowMs >= open.expiresAtMs) this.#finish(open, expiryOf(open))
    else if (open.namedAtMs > 0) {
      if (nowMs - open.namedAtMs > namedLimitMs) this.#finish(open, unverified())
      else this.#queue.add(open)
    } else if (open.proof || open.isStale) {
      const ageMs = nowMs - this.#knownAt(open)
      if (open.isStale || ageMs > readAgainAfterMs) this.#queue.add(open)
      const { onUnknown, unknownMs } = this.#options
      if (ageMs > (onUnknown === 'end' ? unknownLimitMs : unknownMs)) this.#finish(open, unverified())
    }
  }

  #keep(open: OpenExchange, askedAtMs: number, { tokens }: DirectoryFacts): void {
    open.verifiedAtMs = Math.floor(askedAtMs)
    if (this.#staleSinceMs <= askedAtMs) open.isStale = false
    this.#moveExpiry(open, tokens)
    if (open.namedAtMs > askedAtMs) {
      this.#queue.add(open)
      return
    }
    open.namedAtMs = 0
    this.#settle(open)
  }

  #moveExpiry(open: OpenExchange, tokens: DirectoryFacts['tokens']): void {
    const { proof } = open
    if (proof?.kind !== 'api-token') return
    const endsAtMs = tokens.get(proof.id)?.expiresAt?.getTime()
    if (endsAtMs === proof.endsAtMs) return
    proof.endsAtMs = endsAtMs
    open.expiresAtMs = this.#toMonotonic(endsAtMs)
  }

  /** Counted on the monotonic clock from here on: a wall clock that is set back prolongs nothing. */
  #toMonotonic(wallMs: number | undefined): number {
    if (wallMs === undefined) return 0
    const { now, monotonicMs } = this.#options
    return Math.max(1, Math.ceil(monotonicMs() + wallMs - now().getTime()))
  }

  #finish(open: OpenExchange, end: AccessEnd): void {
    if (open.end || open.isOver) return
    open.finish(end, Math.ceil(this.#options.monotonicMs()))
    this.#settle(open)
    this.#options.onEnded(end, open)
  }

  /** Milliseconds by which the wall clock was set forward since the last look. */
  #readClockStep(): number {
    const aheadMs = this.#readWallAhead()
    const stepMs = Math.round(aheadMs - this.#wallAheadMs)
    if (Math.abs(stepMs) < clockStepMs) return 0
    this.#wallAheadMs = aheadMs
    return Math.max(0, stepMs)
  }

  #readWallAhead(): number {
    return this.#options.now().getTime() - this.#options.monotonicMs()
  }
}

/** Outside the class: this closure lives as long as its exchange. */
const followEnd = (open: OpenExchange, leave: (open: OpenExchange, isComplete: boolean) => void): void =>
  open.exchange.onEnd((isComplete) => leave(open, isComplete))

const expiryOf = ({ proof }: OpenExchange): AccessEnd => ({
  code: 'credential_expired',
  refusal: new GatewayError(proof?.kind === 'oauth' ? 'expired' : 'token_expired'),
  isCredential: true,
})

/** The credential may be good still, but its session is over: its client must present it again. */
const orderedBy = ({ id }: SessionEnd): AccessEnd => ({
  code: 'access_revoked',
  refusal: new GatewayError('session_ended'),
  isCredential: true,
  sessionEndId: id,
})

const unverified = (): AccessEnd => ({
  code: 'access_unverified',
  refusal: new GatewayError('directory_unavailable'),
  isCredential: false,
})
