import { guarded, reportFault } from '../../base/fault/guarded.ts'
import type { Change } from '../../directory/change.ts'
import type { DirectoryFacts, SessionEnd } from '../../directory/directory.ts'
import type { Logouts } from '../../directory/logout.ts'
import {
  cutOffMs,
  factMs,
  gatherMs,
  lookMs,
  namedMs,
  readAgainMs,
  reloadRestMs,
  unprovenMs,
} from '../../rights/budget.ts'
import { stillCounts } from '../../rights/confirm-once.ts'
import { HeardLog } from '../../rights/heard.ts'
import { ExchangeRegister } from './exchange-register.ts'
import { ExpiryClock, type ExpiryRules, expiryOf } from './expiry.ts'
import { decides, HeardScan, mayConcern } from './heard-scan.ts'
import { type CurrentPolicy, orderedBy, unverified } from './judge-again.ts'
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
    logoutsUnreadSinceMs: Logouts['unreadSinceMs']
    processId: number
    onEnded: (end: AccessEnd, open: OpenExchange) => void
    /** A decision was made again for a request that waits for it. */
    onRound: () => void
    /** The log of heard changes; decision points look in it too. */
    heard?: HeardLog
  }>

export type Recheck = Pick<
  OpenExchanges,
  | 'open'
  | 'confirm'
  | 'isUnconfirmed'
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

type Waiter = Readonly<{ sinceMs: number; resolve: () => void }>

export class OpenExchanges {
  readonly #options: RecheckOptions
  readonly #open: ExchangeRegister
  readonly #log: HeardLog
  readonly #waiting = new Map<OpenExchange, Waiter>()
  /** When the facts were read that confirmed a request. Apart, since few of the thousands that are open ever waited. */
  readonly #confirmedAtMs = new WeakMap<OpenExchange, number>()
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
  /** The count of heard changes at the last reload. */
  #reloadedAt = 0

  constructor(options: RecheckOptions) {
    this.#options = options
    this.#log = options.heard ?? new HeardLog()
    this.#expiry = new ExpiryClock(options)
    this.#open = new ExchangeRegister(options, this.#expiry.wallAheadMs)
    const finish = (open: OpenExchange, end: AccessEnd): void => this.#finish(open, end)
    this.#keys = new WithdrawnKeys(options.monotonicMs, finish)
    const longestUnknownMs = this.#longestUnknownMs
    this.#opaque = new OpaqueTokens({ ...options, longestUnknownMs }, finish)
    const isAwaited = (open: OpenExchange): boolean => this.#waiting.has(open)
    this.#outside = new OutsideDecisions({ ...options, longestUnknownMs, isAwaited }, finish)
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
      lookMs,
    )
    this.#sweeping.unref()
  }

  get count(): number {
    return this.#open.size
  }

  readonly countHeard = (): number => this.#log.position

  /** Whether a change since `heard`, or a logout, may concern a permit that no exchange will be open under. */
  readonly isOutdated = (opening: Opening, heard: number): boolean => {
    if (!this.#log.anySince(heard)) return false
    const open = new OpenExchange(opening, 0, 0, 0)
    return findLogout(open, this.#options.hasEnded) !== undefined || mayConcern(this.#log, open, heard)
  }

  /** Registers an exchange before its first byte goes out. A change since `heard` makes it wait for `confirm`. */
  readonly open = (opening: Opening, heard: number): OpenExchange => {
    const nowMs = Math.ceil(this.#options.monotonicMs())
    // The facts may be as old as a cache allows, so they are read again soon unless a proof covers them.
    const open = this.#open.add(opening, nowMs, nowMs - readAgainMs, heard)
    open.expiresAtMs = this.#expiry.find(open, opening)
    opening.exchange.onEnd(this.#leave, open)
    this.#keys.note(open)
    const hasNewKeys = open.proof?.kind === 'oauth' && !open.proof.isVerifiedByCurrentKeys
    const isSignedOut = findLogout(open, this.#options.hasEnded) !== undefined
    if (hasNewKeys || isSignedOut || this.#isUnproven(open, nowMs) || mayConcern(this.#log, open, heard))
      open.name(nowMs)
    return open
  }

  /**
   * Whether its cached facts may be older than `verifiedAtMs` says, because proof is lost. With `onUnknown: end` such an
   * exchange would outlive the second if its facts could not be read from now on, so its head waits for them.
   */
  #isUnproven({ proof, verifiedAtMs }: OpenExchange, nowMs: number): boolean {
    const { onUnknown, knownAt } = this.#options
    return onUnknown === 'end' && proof !== undefined && knownAt(nowMs - factMs) < verifiedAtMs
  }

  /** Whether the permit of the facts last judged may be out of date, so that the head must wait for `confirm`. */
  readonly isUnconfirmed = (open: OpenExchange): boolean => {
    if (open.end || open.isPending || this.#reloadedAt > open.heard) return true
    const isDoubted = open.standing.kind !== 'proven'
    if (!isDoubted && !this.#log.anySince(open.heard)) return false
    if (findLogout(open, this.#options.hasEnded) !== undefined) return true
    const confirmedAtMs = this.#confirmedAtMs.get(open) ?? Number.NEGATIVE_INFINITY
    if (stillCounts(confirmedAtMs, this.#options.monotonicMs())) return false
    return isDoubted || mayConcern(this.#log, open, open.heard)
  }

  /**
   * Resolves once the exchange was judged on facts that were read after this call; its `end` is then set, or not. Once
   * is enough (`rights/confirm-once.ts`): a change that comes meanwhile leaves it named.
   */
  readonly confirm = async (open: OpenExchange): Promise<void> => {
    if (open.isOver || open.end) return
    const sinceMs = this.#options.monotonicMs()
    // It goes before those that no change named, and ends if its facts cannot be read in time.
    open.name(Math.ceil(sinceMs))
    await new Promise<void>((resolve) => {
      this.#waiting.set(open, { sinceMs, resolve })
      this.#queue.add(open)
      this.#queue.read()
    })
  }

  readonly hear = (change: Change): void => {
    if (change.kind === 'everything') {
      this.#log.noteEverything()
      this.#markStale()
      return
    }
    if (change.kind === 'logout-token' || !decides(change.kind)) return
    this.#log.note(change.kind, change.id)
    this.#heard.add(change.kind, change.id)
  }

  readonly recheckAll = (): void => {
    this.#log.noteEverything()
    this.#reloadedAt = this.#log.position
    setTimeout(
      guarded('timer', () => {
        let policy: CurrentPolicy | undefined
        this.#markStale((open) => {
          policy ??= this.#options.policy()
          this.#queue.endByPolicy(open, policy)
        })
      }),
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
    this.#log.noteUnnamed()
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
    setTimeout(guarded('timer', scan), gatherMs).unref()
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
    this.#waiting.get(open)?.resolve()
    this.#waiting.delete(open)
  }

  /** Nothing was heard of one exchange alone: `onUnknown` decides about those whose facts cannot be read. */
  #markStale(look: (open: OpenExchange) => void = () => undefined): void {
    this.#staleSinceMs = this.#options.monotonicMs()
    this.#open.visit(
      (open) => {
        open.markStale(this.#knownAt(open))
        look(open)
      },
      () => this.#sweep(),
    )
  }

  /** Proof that no change was missed says nothing of a stale one: it missed one. */
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
    const { standing } = open
    if (standing.kind === 'ended') {
      if (nowMs - standing.atMs > cutOffMs) open.exchange.reset()
      return
    }
    if (open.expiresAtMs !== undefined && stepMs > 0) open.expiresAtMs -= stepMs
    const ageMs = open.proof || open.isStale ? nowMs - this.#knownAt(open) : 0
    const namedForMs = standing.kind === 'named' ? nowMs - standing.sinceMs : 0
    if (open.expiresAtMs !== undefined && nowMs >= open.expiresAtMs) this.#finish(open, expiryOf(open))
    else if (namedForMs > namedMs || Math.max(ageMs, this.#unreadForMs(open, nowMs)) > this.#longestUnknownMs)
      this.#finish(open, unverified())
    else if (standing.kind !== 'proven' || ageMs > readAgainMs) this.#queue.add(open)
    this.#opaque.look(open, nowMs)
    this.#outside.look(open, nowMs)
  }

  /** A logout that was heard may be this one's. Proof that no change was missed says nothing of it until it is read. */
  #unreadForMs({ proof }: OpenExchange, nowMs: number): number {
    return proof?.kind === 'oauth' && proof.login ? nowMs - this.#options.logoutsUnreadSinceMs() : 0
  }

  get #longestUnknownMs(): number {
    const { onUnknown, unknownMs } = this.#options
    return onUnknown === 'end' ? unprovenMs : unknownMs
  }

  #keep(open: OpenExchange, judged: JudgedAt, { tokens }: DirectoryFacts): void {
    const { policyAtMs, factsAtMs, heard, isOutdated } = judged
    open.heard = heard
    const asking = this.#outside.noteJudged(open)
    open.verifiedAtMs = Math.floor(factsAtMs)
    this.#expiry.move(open, tokens)
    const waiter = this.#waiting.get(open)
    if (waiter) this.#options.onRound()
    const isAwaited = waiter !== undefined && mayConcern(this.#log, open, heard)
    const isTooOld = waiter !== undefined && factsAtMs < waiter.sinceMs
    const isNamedAgain = isOutdated || isAwaited || isTooOld
    open.noteJudged({
      isStale: open.isStale && this.#staleSinceMs > policyAtMs,
      namedSinceMs: isNamedAgain ? Math.ceil(factsAtMs) : undefined,
    })
    if (isNamedAgain) this.#queue.add(open)
    if (!waiter || isTooOld) return
    this.#confirmedAtMs.set(open, factsAtMs)
    if (asking === undefined) this.#settle(open)
    else asking.then(() => this.#settleAsked(open)).catch((error: unknown) => reportFault('timer', error))
  }

  /** While the question of a later verdict waits, its answer settles. */
  #settleAsked(open: OpenExchange): void {
    if (findLogout(open, this.#options.hasEnded)) {
      this.#queue.addNamed(open, Math.ceil(this.#options.monotonicMs()))
      this.#queue.read()
    } else if (!open.isPending) this.#settle(open)
  }

  #finish(open: OpenExchange, end: AccessEnd): void {
    if (open.end || open.isOver) return
    open.finish(end, Math.ceil(this.#options.monotonicMs()))
    this.#settle(open)
    this.#options.onEnded(end, open)
  }
}
