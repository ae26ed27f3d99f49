import type { Change } from '../directory/change.ts'
import type { DirectoryFacts, SessionEnd } from '../directory/directory.ts'
import { guarded, reportFault } from '../fault/guarded.ts'
import { ExchangeRegister } from './exchange-register.ts'
import { ExpiryClock, type ExpiryRules, expiryOf } from './expiry.ts'
import { decides, LatestChanges } from './heard-changes.ts'
import { HeardScan } from './heard-scan.ts'
import { orderedBy, unverified } from './judge-again.ts'
import { findLogout, type JudgedAt, type JudgeOptions, JudgeQueue } from './judge-queue.ts'
import { type ExchangePage, type ExchangeQuery, matchesFilter } from './list-exchanges.ts'
import { OpaqueTokens } from './opaque-tokens.ts'
import { type AccessEnd, OpenExchange, type Opening } from './open-exchange.ts'
import { type ConsultAgain, OutsideDecisions } from './outside-decisions.ts'
import { WithdrawnKeys } from './withdrawn-keys.ts'

export type RecheckOptions = ExpiryRules &
  JudgeOptions &
  ConsultAgain &
  Readonly<{
    /** The last moment at which facts that were read then are known to have held. */
    knownAt: (readAtMs: number) => number
    processId: number
    onEnded: (end: AccessEnd, open: OpenExchange) => void
  }>

export type Recheck = Pick<
  OpenExchanges,
  | 'open'
  | 'confirm'
  | 'countHeard'
  | 'isOutdated'
  | 'hear'
  | 'recheckAll'
  | 'count'
  | 'list'
  | 'endSessions'
  | 'endLogins'
  | 'stop'
>

const coalesceMs = 10

const sweepMs = 50

/** After a reload most requests end by themselves within this time, and need not be broken off. */
const reloadRestMs = 150

/** Age of unproven facts at which they are read again: the rest of the second is for the read. */
const readAgainAfterMs = 600

const namedLimitMs = 850

/** With `onUnknown: end`; the rest of the second is for the sweep. */
const unknownLimitMs = 930

const resetAfterMs = 700

const logout: Change = { kind: 'logout', id: 0 }

export class OpenExchanges {
  readonly #options: RecheckOptions
  readonly #open: ExchangeRegister
  readonly #latest = new LatestChanges()
  readonly #waiting = new Map<OpenExchange, () => void>()
  readonly #expiry: ExpiryClock
  readonly #keys: WithdrawnKeys
  readonly #opaque: OpaqueTokens
  readonly #outside: OutsideDecisions
  readonly #queue: JudgeQueue
  readonly #heard: HeardScan
  readonly #sweeping: NodeJS.Timeout
  #isLogoutScanPlanned = false
  #isSweeping = false
  #isStopped = false
  #staleSinceMs = Number.NEGATIVE_INFINITY

  constructor(options: RecheckOptions) {
    this.#options = options
    this.#expiry = new ExpiryClock(options)
    this.#open = new ExchangeRegister(options, this.#expiry.wallAheadMs)
    const finish = (open: OpenExchange, end: AccessEnd): void => this.#finish(open, end)
    this.#keys = new WithdrawnKeys(options.monotonicMs, finish)
    const longestUnknownMs = this.#longestUnknownMs
    this.#opaque = new OpaqueTokens({ ...options, longestUnknownMs }, finish)
    this.#outside = new OutsideDecisions({ ...options, longestUnknownMs }, finish)
    const { countHeard } = this
    this.#queue = new JudgeQueue(
      { ...options, countHeard },
      { end: finish, keep: (...verdict) => this.#keep(...verdict) },
    )
    this.#heard = new HeardScan({
      ...options,
      visit: (...work) => this.#open.visit(...work),
      onNamed: (open, namedAtMs) => this.#queue.addNamed(open, namedAtMs),
      onScanned: () => this.#queue.read(),
    })
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

  /** Whether a change since `heard`, or a logout, may concern a permit that no exchange will be open under. */
  readonly isOutdated = (opening: Opening, heard: number): boolean => {
    if (this.#latest.count === heard) return false
    const open = new OpenExchange(opening, 0, 0, 0)
    return findLogout(open, this.#options.hasEnded) !== undefined || this.#latest.mayConcern(open, heard)
  }

  /** Registers an exchange before its first byte goes out. A change since `heard` makes it wait for `confirm`. */
  readonly open = (opening: Opening, heard: number): OpenExchange => {
    const nowMs = Math.ceil(this.#options.monotonicMs())
    // The facts may be as old as a cache allows, so they are read again soon unless a proof covers them.
    const open = this.#open.add(opening, nowMs, nowMs - readAgainAfterMs)
    open.expiresAtMs = this.#expiry.find(open, opening)
    opening.exchange.onEnd(this.#leave, open)
    this.#keys.note(open)
    const hasNewKeys = open.proof?.kind === 'oauth' && !open.proof.isVerifiedByCurrentKeys
    const isSignedOut = findLogout(open, this.#options.hasEnded) !== undefined
    if (hasNewKeys || isSignedOut || this.#latest.mayConcern(open, heard)) open.namedAtMs = nowMs
    return open
  }

  /** Resolves once the exchange was judged on facts that no change has touched; its `end` is then set, or not. */
  readonly confirm = async (open: OpenExchange): Promise<void> => {
    if (open.isOver) return
    await new Promise<void>((resolve) => {
      this.#waiting.set(open, resolve)
      this.#queue.add(open)
      this.#queue.read()
    })
  }

  readonly hear = (change: Change): void => {
    if (change.kind === 'everything') {
      this.#latest.add(change)
      this.#markStale()
      return
    }
    if (change.kind === 'logout-token' || !decides(change.kind)) return
    this.#latest.add(change)
    this.#heard.add(change.kind, change.id)
  }

  readonly recheckAll = (): void => {
    this.#latest.add({ kind: 'everything' })
    setTimeout(
      guarded('timer', () => this.#markStale()),
      reloadRestMs,
    ).unref()
  }

  readonly list = (query: ExchangeQuery): Promise<ExchangePage> => this.#open.list(query)

  /** Ends exchanges that were open at the moment of an order. `answeredAtMs` is that of the ages. */
  readonly endSessions = (ends: readonly SessionEnd[], answeredAtMs: number): void => {
    if (ends.length === 0) return
    this.#open.visit(
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
    this.#latest.add(logout)
    if (this.#isLogoutScanPlanned) return
    this.#isLogoutScanPlanned = true
    const scan = (): void => {
      this.#isLogoutScanPlanned = false
      this.#open.visit(
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

  readonly #leave = (isComplete: boolean, open: OpenExchange): void => {
    this.#open.remove(open)
    open.leave(isComplete)
    this.#settle(open)
  }

  #settle(open: OpenExchange): void {
    if (this.#waiting.size === 0) return
    this.#waiting.get(open)?.()
    this.#waiting.delete(open)
  }

  /** Nothing was heard of one exchange alone: `onUnknown` decides about those whose facts cannot be read. */
  #markStale(): void {
    this.#staleSinceMs = this.#options.monotonicMs()
    this.#open.visit(
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

  #sweep(): void {
    if (this.#isSweeping || this.#isStopped) return
    this.#isSweeping = true
    this.#keys.look((work, onEnd) => this.#open.visit(work, onEnd))
    const stepMs = this.#expiry.readForwardStepMs()
    const nowMs = this.#options.monotonicMs()
    this.#open.visit(
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
    const ageMs = open.proof || open.isStale ? nowMs - this.#knownAt(open) : 0
    const namedForMs = open.namedAtMs > 0 ? nowMs - open.namedAtMs : 0
    if (open.expiresAtMs > 0 && nowMs >= open.expiresAtMs) this.#finish(open, expiryOf(open))
    else if (namedForMs > namedLimitMs || ageMs > this.#longestUnknownMs) this.#finish(open, unverified())
    else if (open.namedAtMs > 0 || open.isStale || ageMs > readAgainAfterMs) this.#queue.add(open)
    this.#opaque.look(open, nowMs)
    this.#outside.look(open, nowMs)
  }

  get #longestUnknownMs(): number {
    const { onUnknown, unknownMs } = this.#options
    return onUnknown === 'end' ? unknownLimitMs : unknownMs
  }

  #keep(open: OpenExchange, judged: JudgedAt, { tokens }: DirectoryFacts): void {
    const { policyAtMs, factsAtMs, heard, isOutdated } = judged
    const asking = this.#outside.noteJudged(open)
    open.verifiedAtMs = Math.floor(factsAtMs)
    if (this.#staleSinceMs <= policyAtMs) open.isStale = false
    this.#expiry.move(open, tokens)
    if (isOutdated || this.#isOvertaken(open, heard)) {
      const isBounded = open.namedAtMs > 0 && this.#waiting.has(open)
      if (!isBounded) open.namedAtMs = Math.max(open.namedAtMs, Math.ceil(factsAtMs))
      this.#queue.add(open)
      return
    }
    open.namedAtMs = 0
    if (asking === undefined) this.#settle(open)
    else asking.then(() => this.#settleAsked(open, heard)).catch((error: unknown) => reportFault('timer', error))
  }

  #isOvertaken(open: OpenExchange, heard: number): boolean {
    return this.#waiting.has(open) && this.#latest.mayConcern(open, heard)
  }

  #settleAsked(open: OpenExchange, heard: number): void {
    if (this.#isOvertaken(open, heard) || findLogout(open, this.#options.hasEnded)) {
      this.#queue.addNamed(open, Math.ceil(this.#options.monotonicMs()))
      this.#queue.read()
    } else if (open.namedAtMs === 0) this.#settle(open)
  }

  #finish(open: OpenExchange, end: AccessEnd): void {
    if (open.end || open.isOver) return
    open.finish(end, Math.ceil(this.#options.monotonicMs()))
    this.#settle(open)
    this.#options.onEnded(end, open)
  }
}
