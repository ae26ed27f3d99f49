import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { reportFault } from '../../base/fault/guarded.ts'
import { ownTurn } from '../../base/lib/background-turns.ts'
import {
  type DirectoryFacts,
  type FactKeys,
  type IdentityName,
  nameIdentity,
  type ReadFacts,
  type ResourceName,
} from '../../directory/directory.ts'
import type { Logouts } from '../../directory/logout.ts'
import { batchRestMs, lookMs, readRetryMs, restingMs, secondMs, sliceMs, sliceRestMs } from '../../rights/budget.ts'
import { Turns } from '../../rights/turns.ts'
import { nameResource } from '../resolve/resource.ts'
import { readResourceIds } from '../resolve/resource-ids.ts'
import type { RouteMatch } from '../route/table.ts'
import { type CurrentPolicy, endedBy, judgeAgain, matchAgain } from './judge-again.ts'
import { type AccessEnd, agentIdOf, clusterIdOf, type OpenExchange } from './open-exchange.ts'
import { type EndOpen, PacedEnds } from './paced-ends.ts'
import { findKeyEnd } from './withdrawn-keys.ts'

export type JudgeOptions = Readonly<{
  readFacts: ReadFacts
  policy: () => CurrentPolicy
  hasEnded: Logouts['hasEnded']
  now: () => Date
  monotonicMs: () => number
  onUnread: (error: unknown) => void
}>

type JudgeQueueOptions = JudgeOptions & Readonly<{ knownAt: (readAtMs: number) => number; countHeard: () => number }>

type Asked = Readonly<{ policy: CurrentPolicy; policyAtMs: number; heard: number }>

export type JudgedAt = Omit<Asked, 'policy'> & Readonly<{ factsAtMs: number; isOutdated: boolean }>

export type Verdicts = Readonly<{
  end: EndOpen
  keep: (open: OpenExchange, asked: JudgedAt, facts: DirectoryFacts) => void
}>

/** Those that a change named must end within the second, so they keep two places of three. */
const staleEvery = 3

/**
 * Reads the facts of waiting exchanges in batches, one at a time, and judges them. Those that a change named come first.
 * The others have every third place, since a tenant may name its own without an end. Among both organizations take turns:
 * a crowd of one delays no other tenant.
 */
export class JudgeQueue {
  readonly #options: JudgeQueueOptions
  readonly #verdicts: Verdicts
  readonly #named = new Turns<OpenExchange>()
  readonly #stale = new Turns<OpenExchange>()
  readonly #ends: PacedEnds
  #isReading = false
  #isStopped = false
  #begunAtMs = 0
  #factsAtMs = Number.POSITIVE_INFINITY
  #restUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: JudgeQueueOptions, verdicts: Verdicts) {
    this.#options = options
    this.#verdicts = verdicts
    this.#ends = new PacedEnds(verdicts.end, options.monotonicMs)
  }

  stop(): void {
    this.#isStopped = true
  }

  addNamed(open: OpenExchange, namedAtMs: number): void {
    open.name(namedAtMs)
    if (open.queue === 'facts' && namedAtMs > this.#factsAtMs) open.queue = 'outdated-facts'
    this.add(open)
  }

  add(open: OpenExchange): void {
    if (open.end) return
    const place = open.isNamed ? 'named' : 'stale'
    // One that waits among the stale goes ahead once it is named. Its earlier place is skipped when its turn comes.
    if (open.queue !== 'none' && !(open.queue === 'stale' && place === 'named')) return
    open.queue = place
    if (place === 'named') this.#named.push(open.owner, open)
    else this.#stale.push(open.owner, open)
  }

  /** Ends an exchange that the policy permits no more. That takes no facts, and must not wait for a database that hangs. */
  endByPolicy(open: OpenExchange, policy: CurrentPolicy): void {
    if (open.end || open.isOver) return
    const match = matchOrEnd(open, policy)
    if ('code' in match) this.#condemn(open, match)
  }

  read(): void {
    if (!this.#isReading) this.#readAll().catch((error: unknown) => reportFault('timer', error))
  }

  async #readAll(): Promise<void> {
    this.#isReading = true
    this.#begunAtMs = this.#options.monotonicMs()
    let crowd = 0
    try {
      while (!this.#isStopped && this.#waiting > 0 && this.#options.monotonicMs() >= this.#restUntilMs) {
        const { policy, monotonicMs, countHeard } = this.#options
        const asked = { policyAtMs: monotonicMs(), heard: countHeard(), policy: policy() }
        crowd = this.#isResting ? Math.max(crowd, this.#waiting) : Number.POSITIVE_INFINITY
        const batch = await this.#takeBatch(asked.policy, crowd)
        if (batch.members.length > 0) await this.#judge(batch, asked)
        if (batch.isFull && this.#isResting) await sleep(batchRestMs)
      }
    } finally {
      this.#isReading = false
    }
  }

  get #isResting(): boolean {
    return this.#options.monotonicMs() - this.#begunAtMs < restingMs
  }

  get #waiting(): number {
    return this.#named.size + this.#stale.size
  }

  async #takeBatch(policy: CurrentPolicy, crowd: number): Promise<FactBatch> {
    this.#factsAtMs = Number.POSITIVE_INFINITY
    const batch = new FactBatch(crowd)
    const slice = this.#beginSlice()
    for (let place = 1; !batch.isFull && this.#waiting > 0; place++) {
      const isOfStale = this.#named.size === 0 || (place % staleEvery === 0 && this.#stale.size > 0)
      const [open] = (isOfStale ? this.#stale : this.#named).take(1)
      if (open?.queue === (isOfStale ? 'stale' : 'named')) {
        open.queue = 'facts'
        const match = open.end || open.isOver ? undefined : matchOrEnd(open, policy)
        if (match && 'code' in match) this.#condemn(open, match)
        else if (match) batch.add({ open, match })
      }
      if (slice.isOver()) await slice.next()
    }
    return batch
  }

  async #judge(batch: FactBatch, asked: Asked): Promise<void> {
    const { readFacts, monotonicMs } = this.#options
    const factsAtMs = monotonicMs()
    this.#factsAtMs = factsAtMs
    let facts: DirectoryFacts
    try {
      facts = await readFacts(batch.keys)
    } catch (error) {
      this.#restUntilMs = monotonicMs() + readRetryMs
      for (const { open } of batch.members) if (open.queue !== 'condemned') open.queue = 'none'
      this.#options.onUnread(error)
      return
    }
    const slice = this.#beginSlice()
    for (const member of batch.members) {
      try {
        await this.#judgeOne(member, facts, { ...asked, factsAtMs })
      } catch (error) {
        reportFault('timer', error)
        member.open.queue = 'none'
      }
      if (slice.isOver()) await slice.next()
    }
  }

  async #judgeOne(
    { open, match }: Judging,
    facts: DirectoryFacts,
    { policy, policyAtMs, heard, factsAtMs }: Asked & Readonly<{ factsAtMs: number }>,
  ): Promise<void> {
    if (open.queue === 'condemned') return
    const { hasEnded, now } = this.#options
    const end = findLogout(open, hasEnded) ?? (await findKeyEnd(open)) ?? judgeAgain(open, match, facts, policy, now())
    if (end) {
      this.#condemn(open, end)
      return
    }
    const isOutdated = open.queue === 'outdated-facts'
    open.queue = 'none'
    open.noteMatch(match)
    this.#verdicts.keep(open, { policyAtMs, heard, factsAtMs, isOutdated }, facts)
  }

  /** It keeps its standing until its turn to end comes, at most `spreadMs` later, and is read for no more meanwhile. */
  #condemn(open: OpenExchange, end: AccessEnd): void {
    open.queue = 'condemned'
    this.#ends.add(open, end, this.#dueAtMs(open))
  }

  /** The end of the second since its right was named, or known to hold. The facts of a stale one are proven by nothing. */
  #dueAtMs({ standing, isStale, verifiedAtMs }: OpenExchange): number {
    const knownAtMs = isStale ? verifiedAtMs : this.#options.knownAt(verifiedAtMs)
    return (standing.kind === 'named' ? standing.sinceMs : knownAtMs) + secondMs - lookMs
  }

  #beginSlice() {
    const { monotonicMs } = this.#options
    let untilMs = monotonicMs() + sliceMs
    return {
      isOver: (): boolean => monotonicMs() >= untilMs,
      next: async (): Promise<void> => {
        if (this.#isResting) await sleep(sliceRestMs)
        await ownTurn()
        untilMs = monotonicMs() + sliceMs
      },
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

/**
 * Keys of one statement. Below 50 the round trip costs more than the keys; the most is that of the budgets. Exchanges
 * of one caller share a key, and yet each takes time to judge, so the members have a bound of their own.
 */
const fewestKeys = 50
const mostKeys = 500
const shareOfCrowd = 0.1
const membersPerKey = 2

type Judging = Readonly<{ open: OpenExchange; match: RouteMatch }>

/** A tenth of a crowd, so that other requests are answered between the statements. An infinite crowd has the largest. */
class FactBatch {
  readonly #mostKeys: number
  readonly members: Judging[] = []
  readonly #identities = new Map<string, IdentityName>()
  readonly #tokens = new Set<number>()
  readonly #agents = new Set<number>()
  readonly #clusters = new Set<number>()
  readonly #resources = new Map<string, ResourceName>()

  constructor(crowd: number) {
    this.#mostKeys = Math.min(mostKeys, Math.max(fewestKeys, Math.ceil(crowd * shareOfCrowd)))
  }

  get isFull(): boolean {
    const { size: identities } = this.#identities
    const { size: tokens } = this.#tokens
    return (
      this.members.length >= membersPerKey * this.#mostKeys ||
      Math.max(identities + tokens, this.#agents.size, this.#clusters.size, this.#resources.size) >= this.#mostKeys
    )
  }

  add(judging: Judging): void {
    const { open, match } = judging
    this.members.push(judging)
    const { proof } = open
    if (proof?.kind === 'oauth') this.#identities.set(nameIdentity(proof), proof)
    if (proof?.kind === 'api-token') this.#tokens.add(proof.id)
    const resource = nameResource(match, readResourceIds(match, open.idHeader) ?? [])
    if (resource) this.#resources.set(`${resource.kind.fingerprint} ${resource.id}`, resource)
    addIfKnown(this.#agents, agentIdOf(match, open.idHeader))
    addIfKnown(this.#clusters, clusterIdOf(match))
  }

  get keys(): FactKeys {
    return {
      identities: [...this.#identities.values()],
      tokens: [...this.#tokens],
      agents: [...this.#agents],
      clusters: [...this.#clusters],
      resources: [...this.#resources.values()],
    }
  }
}

function addIfKnown(ids: Set<number>, id: number | undefined): void {
  if (id !== undefined) ids.add(id)
}
