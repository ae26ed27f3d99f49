// Users, organizations, tokens, agents and clusters. The stages see this interface, and boot the implementations.
import type { Awaitable } from '../base/lib/awaitable.ts'
import type { ResourceKind } from '../policy/resource-kind.ts'

export type UserRecord = Readonly<{
  id: number
  externalId?: string | null
  email: string
  emailVerified: boolean
  username: string | null
  firstName: string | null
  lastName: string | null
  fullName: string | null
  userType: 'human' | 'client-managed'
  currentOrganizationId: number | null
  /** All role assignments. Those in organizations come first, by the organization's creation and id. */
  roles: readonly RoleAssignment[]
}>

export type AssertedUser = Omit<UserRecord, 'id'> & Readonly<{ id: undefined; name: string }>

export type KnownUser = UserRecord | AssertedUser

export const nameUser = (user: KnownUser): number | string => user.id ?? user.name

export type RoleAssignment = Readonly<{ id: number; role: string; organization: OrganizationSummary | null }>

export type OrganizationSummary = Readonly<{
  id: number
  externalId?: string | null
  slug: string
  accountType: AccountType
  source?: 'claims' | undefined
}>

export type AccountType = 'individual' | 'team' | 'enterprise'

export type OrganizationRecord = OrganizationSummary &
  Readonly<{
    name: string
    description: string | null
    logoUrl: string | null
    websiteUrl: string | null
    contactEmail: string | null
    location: string | null
    companySize: string | null
    domain: string | null
    isVerified: boolean
    memberCount: number | null
    createdAt: Date | null
    updatedAt: Date | null
  }>

export type TokenMetadata = Readonly<{
  id: number
  name: string | null
  abilities: readonly string[]
  lastUsedAt: Date | null
  expiresAt: Date | null
  createdAt: Date | null
}>

/** `hash` is the lower-case hex SHA-256 of the secret. A token expires with the first of its ancestors. */
export type TokenRecord = TokenMetadata &
  Readonly<{ hash: string; user: UserRecord; ancestors: readonly TokenAncestor[] }>

export type WrongSecret = 'wrong-secret'

export type TokenAncestor = Readonly<{ id: number; userId: number }>

export type MemberName = Readonly<{ id: number } | { username: string }>

export type NewToken = Readonly<{
  userId: number
  /** The organization whose administrators list and revoke it. */
  organizationId: number
  name: string | null
  hash: string
  abilities: readonly string[]
  expiresAt: Date | null
}>

export type Minter = Readonly<{
  userId: number
  /** Ends the new token with the caller's. Null for an OAuth session. */
  parentId: number | null
  /** Throws to refuse. Both records are from the mint's own transaction, not from a cache. */
  requireReach: (minter: UserRecord, owner: UserRecord) => void
}>

export type TokenManager = Readonly<{
  userId: number
  organizationId: number
  /** Whether the caller may mint for the account. Both records are from the same transaction, not from a cache. */
  mayMint: (manager: UserRecord, owner: UserRecord) => boolean
}>

export type AuditContext = Readonly<{
  /** Null for an operator at the command line, who is not a user of the platform. */
  actorId: number | null
  credential: string
  organizationId: number | null
  clientAddress: string
  requestId: string
}>

export type TokenPage = Readonly<{ page: number; perPage: number }>

export type AgentRecord = Readonly<{ id: number; organizationId: number; isPublic: boolean }>

export type ResourceRecord = Readonly<{ levels: readonly ResourceLevel[] }>

export type ResourceLevel = Readonly<{
  id: string
  organizationId: number
  ownerId: number | null
  visibility: 'organization' | 'public' | 'private'
}>

export type ForeignResource = 'foreign'

export type ResourceQuestion = Readonly<{ kind: ResourceKind; id: string; organizationId: number | undefined }>

export type ListPart<Id> = Readonly<{ organizationId: number; after: Id | undefined; limit: number }>

export type ListedResource = Readonly<{ id: string; record: ResourceRecord | ForeignResource | undefined }>

export type ClusterRecord = Readonly<{
  id: number
  organizationId: number
  slug: string
  baseUrl: string
  isSuspended: boolean
  isDeleting: boolean
  lastHeartbeatAt: Date | null
}>

export type NewIdentity = Readonly<{
  issuer: string
  subject: string
  email: string
  username: string | null
  firstName: string | null
  lastName: string | null
  linkByEmail: string | undefined
  isEmailVerified: boolean
  assertions?: Assertions | undefined
}>

export type Arrival = Pick<AuditContext, 'clientAddress' | 'requestId'>

export type Assertions = Readonly<{
  /** A digest of all facts: two JWTs of one subject may assert different ones. */
  key: string
  profile: Readonly<{
    email: string
    isEmailVerified: boolean
    username: string | null
    firstName: string | null
    lastName: string | null
  }>
  userType: UserRecord['userType']
  platformRoles: readonly string[]
  memberships: readonly AssertedMembership[]
}>

/** A literal rule names the organization by its slug, and a captured or referenced value by issuer and value. */
export type AssertedMembership = Readonly<{ role: string } & ({ slug: string } | { issuer: string; value: string })>

/**
 * Every method rejects with `directory_unavailable` if the store cannot be reached, because an unknown answer is never
 * a "no". Cached facts return directly, without a promise.
 */
export interface Directory<User extends KnownUser = UserRecord> {
  findByIdentity(identity: IdentityName): Awaitable<User | undefined>
  createByIdentity(identity: NewIdentity, arrival: Arrival): Promise<UserRecord>
  verifyEmail(userId: number, address: string): Promise<boolean | undefined>
  /**
   * Finds a token by its id; the caller compares the hash. `hash` only names a cached absence. A token that was never
   * found waits for the turn of its client's address, and is compared before it is read.
   */
  findToken(id: number, hash: string, clientAddress?: string): Awaitable<TokenRecord | WrongSecret | undefined>
  findOrganization(id: number): Awaitable<OrganizationRecord | undefined>
  /** To the organization that asks, another one's agent that is not public may be `foreign`. A store gives the record. */
  findAgent(id: number, organizationId: number | undefined): Awaitable<AgentRecord | ForeignResource | undefined>
  findResource(question: ResourceQuestion): Awaitable<ResourceRecord | ForeignResource | undefined>
  /** A cached record is looked up again if its heartbeat is older than `aliveSince`. Another organization's as above. */
  findCluster(
    id: number,
    aliveSince: Date,
    organizationId: number,
  ): Awaitable<ClusterRecord | ForeignResource | undefined>
  findMember(organizationId: number, userId: number): Promise<Pick<UserRecord, 'id' | 'userType'> | undefined>
  findNamedMember(organizationId: number, name: MemberName): Awaitable<UserRecord | undefined>
  listMembers(part: ListPart<number>): Promise<readonly UserRecord[]>
  findUniqueNames(organizationId: number, usernames: readonly string[]): Promise<ReadonlySet<number>>
  listAgents(part: ListPart<number>): Promise<readonly AgentRecord[]>
  listResources(kind: ResourceKind, part: ListPart<string>): Promise<readonly ListedResource[]>
  mintToken(token: NewToken, minter: Minter | undefined, audit: AuditContext): Promise<TokenMetadata>
  /** To a manager who may not mint for the account, only tokens minted in its organization exist. An operator has all. */
  listTokens(
    userId: number,
    page: TokenPage,
    manager?: TokenManager,
  ): Promise<Readonly<{ total: number; tokens: readonly TokenMetadata[] }>>
  /** Also revokes all tokens minted with this one. Undefined if the user has no such token. */
  revokeToken(
    token: Readonly<{ id: number; userId: number }>,
    audit: AuditContext,
    manager?: TokenManager,
  ): Promise<TokenMetadata | undefined>
  /** Returns false, and writes nothing, if the organization is stored already. */
  switchOrganization(userId: number, organizationId: number, audit: AuditContext): Promise<boolean>
  noteTokenUse(tokenId: number, at: Date): void
  ping(): Promise<void>
}

/** A directory without caches: it reads a token by its id alone, and compares nothing. */
export type DirectoryStore = Omit<Directory, 'findToken'> &
  Readonly<{ findToken: (id: number) => Promise<TokenRecord | undefined> }>

export type FactKeys = Readonly<{
  identities: readonly IdentityName[]
  tokens: readonly number[]
  agents: readonly number[]
  clusters: readonly number[]
  resources: readonly ResourceName[]
}>

export type ResourceName = Pick<ResourceQuestion, 'kind' | 'id'>

export type IdentityName = Pick<NewIdentity, 'issuer' | 'subject' | 'assertions'>

export type DirectoryFacts = Readonly<{
  users: ReadonlyMap<string, KnownUser>
  tokens: ReadonlyMap<number, TokenRecord>
  agents: ReadonlyMap<number, AgentRecord>
  clusters: ReadonlyMap<number, ClusterRecord>
  findResource: (name: ResourceName) => ResourceRecord | undefined
}>

export type ReadFacts = (keys: FactKeys) => Promise<DirectoryFacts>

export type SessionFilter = Readonly<{
  userId: number | null
  organizationId: number | null
  tokenId: number | null
  route: string | null
  requestId: string | null
}>

/** An order to end what is open. `ageMs` is counted by the server of the database when it answers. */
export type SessionEnd = Readonly<{ id: number; ageMs: number; filter: SessionFilter }>

/** The lengths separate the parts, whatever they contain. */
export const nameIdentity = ({ issuer, subject, assertions }: IdentityName): string =>
  assertions === undefined
    ? `${issuer.length} ${issuer} ${subject}`
    : `${assertions.key.length} ${assertions.key} ${issuer.length} ${issuer} ${subject}`
