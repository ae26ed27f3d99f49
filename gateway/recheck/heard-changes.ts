import { type Change, type ChangedKind, concernsResources, type ResourceChange, type Tag } from '../directory/change.ts'
import type { OpenExchange } from './open-exchange.ts'

export type DecidingKind = Exclude<ChangedKind, 'members' | 'session-end' | 'logout'>

const kinds = ['user', 'token', 'organization', 'agent', 'cluster'] as const satisfies readonly DecidingKind[]

type CountedKind = Exclude<DecidingKind, ResourceChange>

export const decides = (kind: Change['kind']): kind is DecidingKind =>
  kinds.some((known) => known === kind) || concernsResources(kind)

export class HeardChanges {
  readonly #moments: Readonly<Record<CountedKind, Map<number, number>>> = {
    user: new Map(),
    token: new Map(),
    organization: new Map(),
    agent: new Map(),
    cluster: new Map(),
  }

  readonly #momentsOfResources = new Map<Tag, number>()

  add(kind: DecidingKind, id: number, moment: number): void {
    if (concernsResources(kind)) this.#momentsOfResources.set(`${kind}:${id}`, moment)
    else this.#moments[kind].set(id, moment)
  }

  /** The moment of the last change that may concern this exchange; 0 if none was heard. */
  findNaming({ proof, userId, organizationId, agentId, clusterId, resourceTags }: OpenExchange): number {
    const { user, token, organization, agent, cluster } = this.#moments
    let last = Math.max(at(user, userId), at(organization, organizationId), at(agent, agentId), at(cluster, clusterId))
    for (const tag of resourceTags) last = Math.max(last, this.#momentsOfResources.get(tag) ?? 0)
    if (proof?.kind !== 'api-token') return last
    last = Math.max(last, at(token, proof.id))
    // A token ends with its ancestors, and with their owners.
    for (const ancestor of proof.ancestors) last = Math.max(last, at(token, ancestor.id), at(user, ancestor.userId))
    return last
  }
}

const at = (moments: ReadonlyMap<number, number>, id: number | undefined): number =>
  id === undefined || moments.size === 0 ? 0 : (moments.get(id) ?? 0)

/** One statement names at most as many. When more came since a request's facts, one of them may concern it. */
const remembered = 20_000

export class LatestChanges {
  #heard = new HeardChanges()
  #earlier = new HeardChanges()
  #heardFrom = 0
  #earlierFrom = 0
  #everythingAt = 0
  #count = 0

  get count(): number {
    return this.#count
  }

  add(change: Change): void {
    this.#count += 1
    if (change.kind === 'everything') this.#everythingAt = this.#count
    else if (change.kind !== 'logout-token' && decides(change.kind))
      this.#heard.add(change.kind, change.id, this.#count)
    if (this.#count - this.#heardFrom < remembered) return
    this.#earlier = this.#heard
    this.#earlierFrom = this.#heardFrom
    this.#heard = new HeardChanges()
    this.#heardFrom = this.#count
  }

  mayConcern(open: OpenExchange, since: number): boolean {
    if (since === this.#count) return false
    if (since < this.#earlierFrom || since < this.#everythingAt) return true
    return Math.max(this.#heard.findNaming(open), this.#earlier.findNaming(open)) > since
  }
}
