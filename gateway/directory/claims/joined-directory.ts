import { type Awaitable, andThen } from '../../base/lib/awaitable.ts'
import { type DeclaredOrganization, mayBeTakenFor } from '../../policy/organizations.ts'
import {
  type Assertions,
  type Directory,
  type DirectoryFacts,
  nameIdentity,
  type OrganizationRecord,
  type ReadFacts,
  type ResourceRecord,
  type TokenRecord,
  type UserRecord,
} from '../directory.ts'
import { assignRoles, type ClaimsPolicy, refuse } from './directory.ts'

/**
 * Users, tokens and most organizations of the store, and the declared organizations with the memberships that JWTs
 * assert. All that the store says of a declared organization counts as absent, so each organization has one source.
 */
export function joinClaims(stored: Directory, { isDeclared, findDeclared, join }: Join): Directory {
  const joinMember = (user: UserRecord | undefined) => user && join(user, undefined)
  return {
    ...stored,
    findByIdentity: ({ issuer, subject, assertions }) =>
      andThen(stored.findByIdentity({ issuer, subject }), (user) => user && join(user, assertions)),
    createByIdentity: async ({ assertions, ...identity }, arrival) =>
      join(await stored.createByIdentity(identity, arrival), assertions),
    findToken: (...asked) =>
      andThen(stored.findToken(...asked), (token) => (typeof token === 'object' ? joinToken(token, join) : token)),
    findOrganization: (id): Awaitable<OrganizationRecord | undefined> => {
      const declared = findDeclared(id)
      return declared ? describe(declared) : stored.findOrganization(id)
    },
    findAgent: (...asked) =>
      andThen(stored.findAgent(...asked), (agent) =>
        typeof agent === 'object' && isDeclared(agent.organizationId) ? undefined : agent,
      ),
    findResource: (question) =>
      andThen(stored.findResource(question), (found) =>
        typeof found === 'object' && !isOfStore(found, isDeclared) ? undefined : found,
      ),
    findCluster: (...asked) =>
      andThen(stored.findCluster(...asked), (cluster) =>
        typeof cluster === 'object' && isDeclared(cluster.organizationId) ? undefined : cluster,
      ),
    findMember: (id, userId) => (isDeclared(id) ? refuse() : stored.findMember(id, userId)),
    findNamedMember: (id, name) => (isDeclared(id) ? refuse() : andThen(stored.findNamedMember(id, name), joinMember)),
    listMembers: async (part) => {
      if (isDeclared(part.organizationId)) return refuse()
      return (await stored.listMembers(part)).map((user) => join(user, undefined))
    },
    findUniqueNames: (id, names) => (isDeclared(id) ? refuse() : stored.findUniqueNames(id, names)),
    listAgents: (part) => (isDeclared(part.organizationId) ? refuse() : stored.listAgents(part)),
    listResources: (kind, part) => (isDeclared(part.organizationId) ? refuse() : stored.listResources(kind, part)),
    switchOrganization: (userId, id, audit) =>
      isDeclared(id) ? refuse() : stored.switchOrganization(userId, id, audit),
  }
}

export function joinFacts(readStored: ReadFacts, { isDeclared, join }: Join): ReadFacts {
  return async (keys): Promise<DirectoryFacts> => {
    const identities = new Map(
      keys.identities.map(({ issuer, subject }) => [nameIdentity({ issuer, subject }), { issuer, subject }]),
    )
    const facts = await readStored({ ...keys, identities: [...identities.values()] })
    const users = keys.identities.flatMap((identity) => {
      const { issuer, subject, assertions } = identity
      const user = facts.users.get(nameIdentity({ issuer, subject }))
      return user?.id === undefined ? [] : [[nameIdentity(identity), join(user, assertions)] as const]
    })
    const ofStore = <Fact extends Readonly<{ organizationId: number }>>(known: ReadonlyMap<number, Fact>) =>
      new Map([...known].filter(([, { organizationId }]) => !isDeclared(organizationId)))
    return {
      users: new Map(users),
      tokens: new Map([...facts.tokens].map(([id, token]) => [id, joinToken(token, join)])),
      agents: ofStore(facts.agents),
      clusters: ofStore(facts.clusters),
      findResource: (name) => {
        const found = facts.findResource(name)
        return found && isOfStore(found, isDeclared) ? found : undefined
      },
    }
  }
}

export type Join = Readonly<{
  join: JoinUser
  isDeclared: (id: number) => boolean
  findDeclared: (id: number) => DeclaredOrganization | undefined
}>

type JoinUser = (user: UserRecord, assertions: Assertions | undefined) => UserRecord

/** Equal facts give the same record, since identity headers are cached by it. A reload of the policy begins anew. */
export function createJoin(policy: () => ClaimsPolicy): Join {
  let inForce: ClaimsPolicy | undefined
  let joined = new WeakMap<UserRecord, WeakMap<object, UserRecord>>()
  const current = (): ClaimsPolicy => {
    const now = policy()
    if (now !== inForce) joined = new WeakMap()
    inForce = now
    return now
  }
  const join: JoinUser = (user, assertions) => {
    const claims = current()
    const key = assertions ?? noAssertions
    const known = joined.get(user)?.get(key)
    if (known) return known
    const made = joinUser(user, assertions, claims)
    const others = joined.get(user) ?? new WeakMap<object, UserRecord>()
    joined.set(user, others.set(key, made))
    return made
  }
  const findDeclared = (id: number): DeclaredOrganization | undefined => current().organizations.byId.get(id)
  return { join, findDeclared, isDeclared: (id: number): boolean => findDeclared(id) !== undefined }
}

const noAssertions = {}

function joinUser(user: UserRecord, assertions: Assertions | undefined, policy: ClaimsPolicy): UserRecord {
  const { byId } = policy.organizations
  const stored = user.roles.filter(
    ({ organization }) => organization === null || !mayBeTakenFor(organization, policy.organizations),
  )
  const asserted = assertions ? assignRoles(assertions.memberships, policy) : []
  const { currentOrganizationId: chosen } = user
  const isChoiceHidden = chosen !== null && byId.has(chosen)
  if (stored.length === user.roles.length && asserted.length === 0 && !isChoiceHidden) return user
  return {
    ...user,
    currentOrganizationId: isChoiceHidden ? null : chosen,
    roles: [
      ...stored.filter(({ organization }) => organization !== null),
      ...asserted,
      ...stored.filter(({ organization }) => organization === null),
    ],
  }
}

function joinToken(token: TokenRecord, join: JoinUser): TokenRecord {
  const user = join(token.user, undefined)
  return user === token.user ? token : { ...token, user }
}

const isOfStore = ({ levels }: ResourceRecord, isDeclared: (id: number) => boolean): boolean =>
  levels.every(({ organizationId }) => !isDeclared(organizationId))

const describe = ({ id, slug, accountType, source }: DeclaredOrganization): OrganizationRecord => ({
  ...{ id, slug, accountType, source, name: slug },
  ...{ description: null, logoUrl: null, websiteUrl: null, contactEmail: null },
  ...{ location: null, companySize: null, domain: null, isVerified: false },
  ...{ memberCount: null, createdAt: null, updatedAt: null },
})
