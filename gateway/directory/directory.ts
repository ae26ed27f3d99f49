import type { Awaitable } from '../lib/awaitable.ts'

/** A user as the directory knows it, with everything that decides about it. */
export type UserRecord = Readonly<{
  id: number
  email: string
  /** Whether the address is known to be the user's. */
  emailVerified: boolean
  username: string | null
  firstName: string | null
  lastName: string | null
  fullName: string | null
  userType: 'human' | 'client-managed'
  currentOrganizationId: number | null
  /** All role assignments: those in organizations first, oldest organization first (by creation, then id). */
  roles: readonly RoleAssignment[]
}>

/** A role in an organization, or on the platform where there is none. */
export type RoleAssignment = Readonly<{ id: number; role: string; organization: OrganizationSummary | null }>

export type OrganizationSummary = Readonly<{ id: number; slug: string; accountType: AccountType }>

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
    memberCount: number
    createdAt: Date
    updatedAt: Date
  }>

/** What may be shown of an API token. */
export type TokenMetadata = Readonly<{
  id: number
  name: string | null
  abilities: readonly string[]
  lastUsedAt: Date | null
  expiresAt: Date | null
  createdAt: Date | null
}>

/**
 * An API token and its owner; `hash` is the lower-case hex SHA-256 of its secret. It expires with the first of the
 * tokens that it was minted with, and of theirs.
 */
export type TokenRecord = TokenMetadata &
  Readonly<{ hash: string; user: UserRecord; ancestors: readonly TokenAncestor[] }>

/** A token that another one ends with, and its owner. */
export type TokenAncestor = Readonly<{ id: number; userId: number }>

export type NewToken = Readonly<{
  userId: number
  name: string | null
  hash: string
  abilities: readonly string[]
  expiresAt: Date | null
}>

/** The caller of a mint, who lends the rights of the token's owner to whatever holds the token. */
export type Lender = Readonly<{
  userId: number
  /** The token that the caller came with: the new one ends with it. Null for an OAuth session. */
  parentId: number | null
  /** Refuses by throwing. Both are as they are at the moment of the mint, whatever a cache has said before. */
  requireReach: (lender: UserRecord, owner: UserRecord) => void
}>

/** Who did something, for which organization, and from where; written in the same transaction as the deed. */
export type AuditContext = Readonly<{
  /** Null for an operator at the command line, who is no user of the platform. */
  actorId: number | null
  /** `oauth`, `api-token:<id>` or `command-line`. */
  credential: string
  organizationId: number | null
  clientAddress: string
  requestId: string
}>

/** Pages count from 1. */
export type TokenPage = Readonly<{ page: number; perPage: number }>

export type AgentRecord = Readonly<{ id: number; organizationId: number; isPublic: boolean }>

export type ClusterRecord = Readonly<{
  id: number
  organizationId: number
  slug: string
  baseUrl: string
  isSuspended: boolean
  isDeleting: boolean
  lastHeartbeatAt: Date | null
}>

/** A human as an identity provider describes it. */
export type NewIdentity = Readonly<{
  issuer: string
  subject: string
  email: string
  username: string | null
  firstName: string | null
  lastName: string | null
  /** The e-mail address by which an existing human may be linked, if the issuer is trusted with that. */
  linkByEmail: string | undefined
  /** Whether the issuer has verified the address, and is trusted with that. */
  isEmailVerified: boolean
}>

/** The origin of a request, and its name in the log. */
export type Arrival = Pick<AuditContext, 'clientAddress' | 'requestId'>

/**
 * Who there is and what belongs to whom. Every method rejects with `directory_unavailable` when the store
 * cannot be asked: not knowing is never the same as "no". What is found may be here at once, out of a cache.
 */
export interface Directory {
  findByIdentity(issuer: string, subject: string): Awaitable<UserRecord | undefined>
  /** Creates the user of an identity, or finds the one that somebody else has just created. */
  createByIdentity(identity: NewIdentity, arrival: Arrival): Promise<UserRecord>
  /** Notes that an issuer has verified a user's address; false where it is another's, undefined where no notes are kept. */
  verifyEmail(userId: number, address: string): Promise<boolean | undefined>
  /**
   * The token of this row, whatever its hash: comparing is the caller's. The `hash` that was claimed only names what
   * to remember where there is no such row. A token that was never found waits for the turn of its client's address.
   */
  findToken(id: number, hash: string, clientAddress?: string): Awaitable<TokenRecord | undefined>
  findOrganization(id: number): Awaitable<OrganizationRecord | undefined>
  findAgent(id: number): Awaitable<AgentRecord | undefined>
  /** A record that was held is looked up again where its heartbeat is older than `aliveSince`. */
  findCluster(id: number, aliveSince: Date): Awaitable<ClusterRecord | undefined>
  /** A member of an organization, whoever asks. */
  findMember(organizationId: number, userId: number): Promise<Pick<UserRecord, 'id' | 'userType'> | undefined>
  /** An operator at the command line is no lender, and mints for any account. */
  mintToken(token: NewToken, lender: Lender | undefined, audit: AuditContext): Promise<TokenMetadata>
  /** A page of a user's tokens, newest first, and how many there are. */
  listTokens(userId: number, page: TokenPage): Promise<Readonly<{ total: number; tokens: readonly TokenMetadata[] }>>
  /**
   * The metadata of the token that is now revoked, and with it all that were minted with it; undefined when the user has
   * no such token.
   */
  revokeToken(token: Readonly<{ id: number; userId: number }>, audit: AuditContext): Promise<TokenMetadata | undefined>
  /** Stores the user's current organization. */
  switchOrganization(userId: number, organizationId: number, audit: AuditContext): Promise<void>
  /** Notes that a token was used; written later and in batches. */
  noteTokenUse(tokenId: number, at: Date): void
  /** Rejects unless the store answers now. */
  ping(): Promise<void>
}
