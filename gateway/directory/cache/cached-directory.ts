// Facts in memory. One is believed while its source of changes is proven to tell of every change, and briefly after.
import { type Awaitable, andThen } from '../../base/lib/awaitable.ts'
import { factMs, heartbeatMs } from '../../rights/budget.ts'
import { verificationsRestMs } from '../../rights/paces.ts'
import { type Change, concernsResources, type Tag, tagsOfResource } from '../change.ts'
import {
  type AgentRecord,
  type Arrival,
  type ClusterRecord,
  type Directory,
  type ForeignResource,
  type NewIdentity,
  nameIdentity,
  type OrganizationRecord,
  type ResourceQuestion,
  type ResourceRecord,
  type TokenRecord,
  type UserRecord,
  type WrongSecret,
} from '../directory.ts'
import type { Freshness } from './freshness.ts'
import { singleFlight } from './single-flight.ts'
import { createTaggedCache, type ReadResult, type TaggedCache, type TaggedCacheOptions } from './tagged-cache.ts'

export type CacheName = 'users' | 'tokens' | 'organizations' | 'agents' | 'clusters' | 'resources'

export type CachedDirectory = Readonly<{
  directory: Directory
  forget: (change: Change) => void
  sizes: () => Readonly<Record<CacheName, number>>
}>

export type CachedDirectoryOptions = Readonly<
  Pick<TaggedCacheOptions<unknown>, 'maxEntries' | 'ttlMs' | 'freshness' | 'grace'> & {
    onRead: (cache: CacheName, result: ReadResult) => void
    announce: (change: Change) => void
    onForgotten: (change: Change) => void
  }
>

type FirstLogin = Readonly<{ identity: NewIdentity; arrival: Arrival }>

type Verification = Readonly<{ userId: number; address: string }>

export function createCachedDirectory(store: Directory, options: CachedDirectoryOptions): CachedDirectory {
  const caches = createCaches(options)
  const firstLogins = singleFlight(
    ({ identity }) => nameIdentity(identity),
    ({ identity, arrival }: FirstLogin) => store.createByIdentity(identity, arrival),
  )
  const forget = (change: Change): void => {
    forgetIn(caches, change)
    // A login under way may have read its user before the change.
    firstLogins.forget()
    options.onForgotten(change)
  }
  const tell = (change: Change): void => {
    forget(change)
    options.announce(change)
  }
  const { users, tokens, organizations, agents, clusters, resources } = caches
  const directory: Directory = {
    ...store,
    findByIdentity: (identity) =>
      // An absent identity is not cached, because a first login follows and creates it.
      users.read(nameIdentity(identity), () => store.findByIdentity(identity), { absenceKey: null }),
    createByIdentity: (identity, arrival) => firstLogins.call({ identity, arrival }),
    verifyEmail: shareVerifications(store, options.freshness, (id) => tell({ kind: 'user', id })),
    findToken: (id, hash, clientAddress) =>
      // The absence is cached under the full hash, so that guesses cannot hide a token that is minted a moment later.
      tokens.read(`token:${id}`, () => store.findToken(id, hash, clientAddress), { absenceKey: `token:${id}:${hash}` }),
    findOrganization: (id) => organizations.read(`organization:${id}`, () => store.findOrganization(id)),
    findAgent: (id, organizationId) =>
      agents.read(`${organizationId ?? 0} agent:${id}`, () =>
        andThen(store.findAgent(id, organizationId), (agent) =>
          typeof agent === 'object' && agent.isPublic ? agent : hideForeign(agent, organizationId),
        ),
      ),
    findResource: (question) => readResource(resources, store, question),
    findNamedMember: (organizationId, name) => {
      const load = () => store.findNamedMember(organizationId, name)
      if ('id' in name) return users.read(`member ${organizationId} id ${name.id}`, load)
      return users.read(`member ${organizationId} name ${name.username}`, load, { maxAgeMs: factMs })
    },
    findCluster: (id, aliveSince, organizationId) => readCluster(clusters, store, { id, aliveSince, organizationId }),
    revokeToken: async (token, audit, manager) => {
      const revoked = await store.revokeToken(token, audit, manager)
      if (revoked) tell({ kind: 'token', id: token.id })
      return revoked
    },
    switchOrganization: async (userId, organizationId, audit) => {
      const isSwitched = await store.switchOrganization(userId, organizationId, audit)
      if (isSwitched) tell({ kind: 'user', id: userId })
      return isSwitched
    },
  }
  return { directory, forget, sizes: () => countEntries(caches) }
}

function shareVerifications(
  store: Directory,
  freshness: Freshness,
  onVerified: (userId: number) => void,
): Directory['verifyEmail'] {
  const verifications = singleFlight(
    ({ userId, address }) => `${userId} ${address}`,
    ({ userId, address }: Verification) => store.verifyEmail(userId, address),
  )
  let restUntilMs = Number.NEGATIVE_INFINITY
  return async (userId, address) => {
    if (freshness.now() < restUntilMs) return undefined
    let isVerified: boolean | undefined
    try {
      isVerified = await verifications.call({ userId, address })
    } finally {
      // After a failure too, because each request of such a user would ask again.
      if (isVerified === undefined) restUntilMs = freshness.now() + verificationsRestMs
    }
    if (isVerified) onVerified(userId)
    return isVerified
  }
}

/**
 * Per organization in force: what another one has is then held exactly like what is absent, so that time tells them
 * apart no more than the response does.
 */
const hideForeign = <Found extends Readonly<{ organizationId: number }>>(
  found: Found | ForeignResource | undefined,
  organizationId: number | undefined,
): Found | ForeignResource | undefined =>
  typeof found === 'object' && found.organizationId !== organizationId ? 'foreign' : found

type ClusterQuestion = Readonly<{ id: number; aliveSince: Date; organizationId: number }>

function readCluster(
  clusters: TaggedCache<ClusterRecord, ForeignResource>,
  store: Directory,
  { id, aliveSince, organizationId }: ClusterQuestion,
): Awaitable<ClusterRecord | ForeignResource | undefined> {
  const key = `${organizationId} cluster:${id}`
  const load = () =>
    andThen(store.findCluster(id, aliveSince, organizationId), (cluster) => hideForeign(cluster, organizationId))
  return andThen(clusters.read(key, load), (held) => {
    if (typeof held !== 'object' || (held.lastHeartbeatAt?.getTime() ?? 0) >= aliveSince.getTime()) return held
    // Heartbeats send no invalidation, so the cached one is a lower bound. Only if it is too old does the store have a
    // newer one.
    return clusters.read(key, load, { maxAgeMs: heartbeatMs })
  })
}

type HeldResource = Readonly<{ record: ResourceRecord; tags: readonly Tag[] }>

/** Per organization in force, as `hideForeign` has it: the store knows which levels are foreign. */
const readResource = (
  resources: TaggedCache<HeldResource, ForeignResource>,
  store: Directory,
  question: ResourceQuestion,
): Awaitable<ResourceRecord | ForeignResource | undefined> => {
  const { kind, id, organizationId = 0 } = question
  const load = () =>
    andThen(store.findResource(question), (record) =>
      typeof record === 'object' ? { record, tags: tagsOfResource(kind, record) } : record,
    )
  return andThen(resources.read(`${organizationId} ${kind.fingerprint} ${id}`, load), (held) =>
    typeof held === 'object' ? held.record : held,
  )
}

type Caches = Readonly<{
  users: TaggedCache<UserRecord>
  tokens: TaggedCache<TokenRecord, WrongSecret>
  organizations: TaggedCache<OrganizationRecord>
  agents: TaggedCache<AgentRecord, ForeignResource>
  clusters: TaggedCache<ClusterRecord, ForeignResource>
  resources: TaggedCache<HeldResource, ForeignResource>
}>

function createCaches({ onRead, maxEntries, ttlMs, freshness, grace }: CachedDirectoryOptions): Caches {
  const create = <Value extends object, Absence extends string = never>(
    name: CacheName,
    tagsOf: (value: Value) => readonly Tag[],
  ): TaggedCache<Value, Absence> =>
    createTaggedCache<Value, Absence>({
      maxEntries,
      ttlMs,
      freshness,
      tagsOf,
      onRead: (result) => onRead(name, result),
      ...(grace && { grace }),
    })
  return {
    users: create<UserRecord>('users', tagsOfUser),
    tokens: create<TokenRecord, WrongSecret>('tokens', ({ id, user, ancestors }) => [
      `token:${id}`,
      ...tagsOfUser(user),
      ...ancestors.flatMap(({ id, userId }): readonly Tag[] => [`token:${id}`, `user:${userId}`]),
    ]),
    organizations: create<OrganizationRecord>('organizations', ({ id }) => [`organization:${id}`, `members:${id}`]),
    agents: create<AgentRecord, ForeignResource>('agents', ({ id }) => [`agent:${id}`]),
    clusters: create<ClusterRecord, ForeignResource>('clusters', ({ id }) => [`cluster:${id}`]),
    resources: create<HeldResource, ForeignResource>('resources', ({ tags }) => tags),
  }
}

const countEntries = ({ users, tokens, organizations, agents, clusters, resources }: Caches) => ({
  users: users.size(),
  tokens: tokens.size(),
  organizations: organizations.size(),
  agents: agents.size(),
  clusters: clusters.size(),
  resources: resources.size(),
})

const tagsOfUser = ({ id, roles }: UserRecord): readonly Tag[] => [
  `user:${id}`,
  ...roles.flatMap(({ organization }): readonly Tag[] => (organization ? [`organization:${organization.id}`] : [])),
]

function forgetIn({ users, tokens, organizations, agents, clusters, resources }: Caches, change: Change): void {
  if (change.kind === 'everything') {
    for (const cache of [users, tokens, organizations, agents, clusters, resources]) cache.clear()
    return
  }
  if (change.kind === 'logout-token') return
  const tag: Tag = `${change.kind}:${change.id}`
  if (concernsResources(change.kind)) {
    resources.drop(tag)
    return
  }
  switch (change.kind) {
    case 'user':
      users.drop(tag)
      tokens.drop(tag)
      return
    case 'token':
      tokens.drop(tag)
      return
    case 'organization':
      users.drop(tag)
      tokens.drop(tag)
      organizations.drop(tag)
      return
    case 'members':
      organizations.drop(tag)
      return
    case 'agent':
      agents.drop(tag)
      return
    case 'cluster':
      clusters.drop(tag)
      return
    case 'session-end':
    case 'logout':
      return
    default:
      change.kind satisfies never
  }
}
