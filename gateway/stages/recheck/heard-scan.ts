import { guarded } from '../../base/fault/guarded.ts'
import { type Change, type ChangedKind, concernsResources, splitTag } from '../../directory/change.ts'
import { gatherMs } from '../../rights/budget.ts'
import { type HeardLog, Moments } from '../../rights/heard.ts'
import type { ExchangeRegister } from './exchange-register.ts'
import type { OpenExchange } from './open-exchange.ts'

export type DecidingKind = Exclude<ChangedKind, 'members' | 'session-end' | 'logout'>

const kinds = ['user', 'token', 'organization', 'agent', 'cluster'] as const satisfies readonly DecidingKind[]

export const decides = (kind: Change['kind']): kind is DecidingKind =>
  kinds.some((known) => known === kind) || concernsResources(kind)

/** The moment of the latest change that may concern this exchange; 0 if none was heard. */
export function findNaming(
  { proof, userId, organizationId, agentId, clusterId, resourceTags }: OpenExchange,
  moments: Moments,
): number {
  let last = Math.max(
    moments.at('user', userId),
    moments.at('organization', organizationId),
    moments.at('agent', agentId),
    moments.at('cluster', clusterId),
  )
  for (const tag of resourceTags) last = Math.max(last, moments.at(...splitTag(tag)))
  if (proof?.kind !== 'api-token') return last
  last = Math.max(last, moments.at('token', proof.id))
  // A token ends with its ancestors, and with their owners.
  for (const { id, userId } of proof.ancestors)
    last = Math.max(last, moments.at('token', id), moments.at('user', userId))
  return last
}

export const mayConcern = (log: HeardLog, open: OpenExchange, since: number): boolean =>
  log.since((moments) => findNaming(open, moments), since)

export type HeardScanOptions = Readonly<{
  visit: ExchangeRegister['visit']
  monotonicMs: () => number
  onNamed: (open: OpenExchange, namedAtMs: number) => void
  onScanned: () => void
}>

/**
 * Finds the exchanges that changes name. One scan is under way at a time, and the next has all that was heard meanwhile.
 * A burst of changes would otherwise begin scans faster than they end.
 */
export class HeardScan {
  readonly #options: HeardScanOptions
  #heard: Moments | undefined
  #isUnderWay = false

  constructor(options: HeardScanOptions) {
    this.#options = options
  }

  add(kind: DecidingKind, id: number): void {
    this.#heard ??= new Moments()
    this.#heard.note(kind, id, Math.ceil(this.#options.monotonicMs()))
    if (!this.#isUnderWay) this.#begin(this.#heard)
  }

  #begin(heard: Moments): void {
    this.#isUnderWay = true
    setTimeout(
      guarded('timer', () => this.#scan(heard)),
      gatherMs,
    ).unref()
  }

  #scan(heard: Moments): void {
    const { visit, onNamed, onScanned } = this.#options
    this.#heard = undefined
    visit(
      (open) => {
        const namedAtMs = findNaming(open, heard)
        if (namedAtMs > 0) onNamed(open, namedAtMs)
      },
      () => {
        this.#isUnderWay = false
        if (this.#heard) this.#begin(this.#heard)
        onScanned()
      },
    )
  }
}
