import { type FactKeys, type IdentityName, nameIdentity, type ResourceName } from '../directory/directory.ts'
import { nameResource } from '../resolve/resource.ts'
import { readResourceIds } from '../resolve/resource-ids.ts'
import type { RouteMatch } from '../route/table.ts'
import { type AccessEnd, agentIdOf, clusterIdOf, type OpenExchange } from './open-exchange.ts'

const fewestKeys = 50
const mostKeys = 500
const shareOfCrowd = 0.1
const membersPerKey = 2

export type Judging = Readonly<{ open: OpenExchange; match: RouteMatch | AccessEnd }>

/** A tenth of a crowd, so that other requests are answered between the statements. An infinite crowd has the largest. */
export class FactBatch {
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
    if ('code' in match) return
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
