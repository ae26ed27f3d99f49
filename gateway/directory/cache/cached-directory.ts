import { type Awaitable, andThen } from '../../lib/awaitable.ts'
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

/** A directory that records no verified addresses is asked again only after this time. */
const verificationsRestMs = 60_000

const silentClusterMs = 1_000

const sharedNameMs = 900

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
    findAgent: (id) => agents.read(`agent:${id}`, () => store.findAgent(id)),
    findResource: (question) => readResource(resources, store, question),
    findNamedMember: (organizationId, name) => {
      const load = () => store.findNamedMember(organizationId, name)
      if ('id' in name) return users.read(`member ${organizationId} id ${name.id}`, load)
      return users.read(`member ${organizationId} name ${name.username}`, load, { maxAgeMs: sharedNameMs })
    },
    findCluster: (id, aliveSince) => readCluster(clusters, store, id, aliveSince),
    revokeToken: async (token, audit) => {
      const revoked = await store.revokeToken(token, audit)
      if (revoked) tell({ kind: 'token', id: token.id })
      return revoked
    },
    switchOrganization: async (userId, organizationId, audit) => {
      await store.switchOrganization(userId, organizationId, audit)
      tell({ kind: 'user', id: userId })
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

function readCluster(
  clusters: TaggedCache<ClusterRecord>,
  store: Directory,
  id: number,
  aliveSince: Date,
): Awaitable<ClusterRecord | undefined> {
  const load = () => store.findCluster(id, aliveSince)
  return andThen(clusters.read(`cluster:${id}`, load), (held) => {
    if (!held || (held.lastHeartbeatAt?.getTime() ?? 0) >= aliveSince.getTime()) return held
    // Heartbeats send no invalidation, so the cached one is a lower bound. Only if it is too old does the store have a
    // newer one.
    return clusters.read(`cluster:${id}`, load, { maxAgeMs: silentClusterMs })
  })
}

type HeldResource = Readonly<{ record: ResourceRecord; tags: readonly Tag[] }>

/**
 * Per organization in force: a foreign resource is then held exactly like an absent one, so that time tells them apart
 * no more than the response does.
 */
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
  agents: TaggedCache<AgentRecord>
  clusters: TaggedCache<ClusterRecord>
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
    agents: create<AgentRecord>('agents', ({ id }) => [`agent:${id}`]),
    clusters: create<ClusterRecord>('clusters', ({ id }) => [`cluster:${id}`]),
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
