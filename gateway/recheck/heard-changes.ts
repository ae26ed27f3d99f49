import { type Change, type ChangedKind, concernsResources, type ResourceChange, type Tag } from '../directory/change.ts'
import type { OpenExchange } from './open-exchange.ts'

type DecidingKind = Exclude<ChangedKind, 'members' | 'session-end' | 'logout'>

const kinds = ['user', 'token', 'organization', 'agent', 'cluster'] as const satisfies readonly DecidingKind[]

type CountedKind = Exclude<DecidingKind, ResourceChange>

export const decides = (kind: Change['kind']): kind is DecidingKind =>
  kinds.some((known) => known === kind) || concernsResources(kind)

/** Changes by kind and id, each with the moment when it was last heard. */
export class HeardChanges {
  readonly #atMs: Readonly<Record<CountedKind, Map<number, number>>> = {
    user: new Map(),
    token: new Map(),
    organization: new Map(),
    agent: new Map(),
    cluster: new Map(),
  }

  readonly #resourcesAtMs = new Map<Tag, number>()

  add(kind: DecidingKind, id: number, atMs: number): void {
    if (concernsResources(kind)) this.#resourcesAtMs.set(`${kind}:${id}`, atMs)
    else this.#atMs[kind].set(id, atMs)
  }

  get isEmpty(): boolean {
    return this.#resourcesAtMs.size === 0 && kinds.every((kind) => this.#atMs[kind].size === 0)
  }

  /** The time of a change that may concern this exchange; 0 if none was heard. */
  findNaming({ proof, userId, organizationId, agentId, clusterId, resourceTags }: OpenExchange): number {
    const { user, token, organization, agent, cluster } = this.#atMs
    let atMs = Math.max(at(user, userId), at(organization, organizationId), at(agent, agentId), at(cluster, clusterId))
    for (const tag of resourceTags) atMs = Math.max(atMs, this.#resourcesAtMs.get(tag) ?? 0)
    if (proof?.kind !== 'api-token') return atMs
    atMs = Math.max(atMs, at(token, proof.id))
    // A token ends with its ancestors, and with their owners.
    for (const ancestor of proof.ancestors) atMs = Math.max(atMs, at(token, ancestor.id), at(user, ancestor.userId))
    return atMs
  }
}

const at = (moments: ReadonlyMap<number, number>, id: number | undefined): number =>
  id === undefined || moments.size === 0 ? 0 : (moments.get(id) ?? 0)

/** More changes than these between a request's facts and its forwarding count as one that concerns it. */
const remembered = 64

export class LatestChanges {
  readonly #changes: Change[] = []
  #count = 0

  get count(): number {
    return this.#count
  }

  add(change: Change): void {
    this.#changes[this.#count % remembered] = change
    this.#count += 1
  }

  mayConcern(open: OpenExchange, since: number): boolean {
    const missed = this.#count - since
    if (missed === 0) return false
    if (missed > remembered) return true
    const heard = new HeardChanges()
    for (let number = since; number < this.#count; number++) {
      const change = this.#changes[number % remembered]
      if (!change || change.kind === 'everything') return true
      if (change.kind !== 'logout-token' && decides(change.kind)) heard.add(change.kind, change.id, 1)
    }
    return heard.findNaming(open) > 0
  }
}
