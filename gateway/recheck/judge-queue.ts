import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { DirectoryFacts, ReadFacts } from '../directory/directory.ts'
import type { Logouts } from '../directory/logout.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { reportFault } from '../fault/guarded.ts'
import { createTurns } from '../lib/turns.ts'
import { FactBatch } from './fact-batch.ts'
import { type CurrentPolicy, endedBy, judgeAgain, matchAgain } from './judge-again.ts'
import type { AccessEnd, OpenExchange } from './open-exchange.ts'
import { findKeyEnd } from './withdrawn-keys.ts'

export type JudgeOptions = Readonly<{
  readFacts: ReadFacts
  policy: () => CurrentPolicy
  hasEnded: Logouts['hasEnded']
  now: () => Date
  monotonicMs: () => number
  onUnread: (error: unknown) => void
}>

export type Verdicts = Readonly<{
  end: (open: OpenExchange, end: AccessEnd) => void
  keep: (open: OpenExchange, askedAtMs: number, facts: DirectoryFacts) => void
}>

/** A crowd's ends are spread, since each also closes two connections: other requests go in between. */
const sliceMs = 1
const restMs = 4
const spreadMs = 400

const retryMs = 100

/**
 * Reads the facts of waiting exchanges in batches, one at a time, and judges them. Those that a change named come first,
 * and their organizations take turns: a crowd that loses its rights at once delays no other tenant.
 */
export class JudgeQueue {
  readonly #options: JudgeOptions
  readonly #verdicts: Verdicts
  readonly #named = createTurns<OpenExchange>(Number.POSITIVE_INFINITY)
  #stale: OpenExchange[] = []
  #isReading = false
  #isStopped = false
  #restUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: JudgeOptions, verdicts: Verdicts) {
    this.#options = options
    this.#verdicts = verdicts
  }

  stop(): void {
    this.#isStopped = true
  }

  add(open: OpenExchange): void {
    if (open.isQueued || open.end) return
    open.isQueued = true
    if (open.namedAtMs > 0) this.#named.push(String(open.organizationId), open)
    else this.#stale.push(open)
  }

  read(): void {
    if (!this.#isReading) this.#readAll().catch((error: unknown) => reportFault('timer', error))
  }

  async #readAll(): Promise<void> {
    this.#isReading = true
    try {
      while (!this.#isStopped && this.#options.monotonicMs() >= this.#restUntilMs) {
        const batch = this.#takeBatch()
        if (batch.members.length === 0) return
        await this.#judge(batch)
      }
    } finally {
      this.#isReading = false
    }
  }

  #takeBatch(): FactBatch {
    const batch = new FactBatch()
    if (this.#named.size() + this.#stale.length === 0) return batch
    const policy = this.#options.policy()
    const add = (open: OpenExchange): void => {
      if (!open.end && !open.isOver) batch.add({ open, match: matchOrEnd(open, policy) })
    }
    while (!batch.isFull && this.#named.size() > 0) for (const open of this.#named.take(1)) add(open)
    let taken = 0
    for (const open of this.#stale) {
      if (batch.isFull) break
      taken += 1
      add(open)
    }
    this.#stale.splice(0, taken)
    return batch
  }

  async #judge(batch: FactBatch): Promise<void> {
    const { readFacts, policy, hasEnded, monotonicMs, now } = this.#options
    const current = policy()
    const askedAtMs = monotonicMs()
    let facts: DirectoryFacts
    try {
      facts = await readFacts(batch.keys)
    } catch (error) {
      this.#restUntilMs = monotonicMs() + retryMs
      for (const { open, match } of batch.members) {
        open.isQueued = false
        if ('code' in match) this.#verdicts.end(open, match)
      }
      this.#options.onUnread(error)
      return
    }
    let untilMs = monotonicMs() + sliceMs
    for (const { open, match } of batch.members) {
      open.isQueued = false
      const end =
        'code' in match
          ? match
          : (findLogout(open, hasEnded) ?? (await findKeyEnd(open)) ?? judgeAgain(open, match, facts, current, now()))
      if (end) this.#verdicts.end(open, end)
      else {
        if (!('code' in match)) open.note(match)
        this.#verdicts.keep(open, askedAtMs, facts)
      }
      if (monotonicMs() < untilMs) continue
      await (monotonicMs() - askedAtMs < spreadMs ? sleep(restMs) : nextTurn())
      untilMs = monotonicMs() + sliceMs
    }
  }
}

export const findLogout = ({ proof }: OpenExchange, hasEnded: Logouts['hasEnded']): AccessEnd | undefined =>
  proof?.kind === 'oauth' && proof.login && hasEnded(proof.login)
    ? endedBy(new GatewayError('signed_out'), true)
    : undefined

function matchOrEnd(open: OpenExchange, policy: CurrentPolicy) {
  try {
    return matchAgain(open, policy)
  } catch (error) {
    return endedBy(error, false)
  }
}
