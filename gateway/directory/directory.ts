/** A user as the directory knows it, with everything that decides about it. */
export type UserRecord = Readonly<{
  id: number
  email: string
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

/** An API token, without its secret; `hash` is the lower-case hex SHA-256 of it. */
export type TokenRecord = Readonly<{
  id: number
  hash: string
  name: string | null
  abilities: readonly string[]
  lastUsedAt: Date | null
  expiresAt: Date | null
  createdAt: Date | null
  user: UserRecord
}>

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
}>

/**
 * Who there is and what belongs to whom. Every method rejects with `directory_unavailable` when the store
 * cannot be asked: not knowing is never the same as "no".
 */
export interface Directory {
  findByIdentity(issuer: string, subject: string): Promise<UserRecord | undefined>
  /** Creates the user of an identity, or finds the one that somebody else has just created. */
  createByIdentity(identity: NewIdentity): Promise<UserRecord>
  findToken(id: number): Promise<TokenRecord | undefined>
  findOrganization(id: number): Promise<OrganizationRecord | undefined>
  findAgent(id: number): Promise<AgentRecord | undefined>
  findCluster(id: number): Promise<ClusterRecord | undefined>
  /** Stores the user's current organization. */
  switchOrganization(userId: number, organizationId: number): Promise<void>
  /** Notes that a token was used; written later and in batches. */
  noteTokenUse(tokenId: number, at: Date): void
  /** Rejects unless the store answers now. */
  ping(): Promise<void>
}
