// The directory in PostgreSQL: its statements, and the notifications that tell of changes.
import { GatewayError } from '../../base/errors/gateway-error.ts'
import {
  type AgentRecord,
  type Arrival,
  type ClusterRecord,
  type Directory,
  type DirectoryStore,
  type MemberName,
  type NewIdentity,
  nameIdentity,
  type ReadFacts,
  type UserRecord,
} from '../directory.ts'
import { writeAudit } from './audit.ts'
import { findUniqueNames, listAgents, listMembers, listResources } from './lists.ts'
import type { Database, Query, Statement } from './pool.ts'
import { findResource, readResources } from './resources.ts'
import {
  type AgentRow,
  type ClusterRow,
  type MemberRow,
  type OrganizationRow,
  type TokenRow,
  toAgent,
  toCluster,
  toOrganization,
  toToken,
} from './rows.ts'
import { areRemovalsNoted, findRemovedIdentity, unnoted } from './shared-organizations.ts'
import * as statements from './statements.ts'
import { createTokenLookups, createTokenStore } from './token-store.ts'

export type DirectoryReports = Readonly<{
  noteTokenUse: Directory['noteTokenUse']
  onLinked: (userId: number, issuer: string, arrival: Arrival) => void
  refusesRemoved?: boolean
}>

export function createPostgresDirectory(
  database: Database,
  { noteTokenUse, onLinked, refusesRemoved = false }: DirectoryReports,
): DirectoryStore {
  const { query, transaction } = database
  return {
    findByIdentity: ({ issuer, subject }) => findByIdentity(query, issuer, subject),
    createByIdentity: async (identity, arrival) => {
      const { user, isLinked } = await transaction((within) =>
        createByIdentity(within, identity, arrival, refusesRemoved),
      )
      if (isLinked) onLinked(user.id, identity.issuer, arrival)
      return user
    },
    verifyEmail: async (userId, address) => {
      const [row] = await query<{ is_verified: boolean | null }>(statements.verifyEmail, [userId, address])
      return row?.is_verified ?? undefined
    },
    findToken: async (id) => {
      const [row] = await query<TokenRow>(statements.findToken, [id])
      return row && toToken(row)
    },
    findOrganization: async (id) => {
      const [row] = await query<OrganizationRow>(statements.findOrganization, [id])
      return row && toOrganization(row)
    },
    findAgent: async (id) => {
      const [row] = await query<AgentRow>(statements.findAgent, [id])
      return row && toAgent(row)
    },
    findResource: (question) => findResource(query, question),
    findCluster: async (id) => {
      const [row] = await query<ClusterRow>(statements.findCluster, [id])
      return row && toCluster(row)
    },
    findMember: async (organizationId, userId) => {
      const [row] = await query<MemberRow>(statements.findMember, [organizationId, userId])
      return row && { id: row.id, userType: row.user_type }
    },
    findNamedMember: (organizationId, name) => findNamedMember(query, organizationId, name),
    listMembers: (part) => listMembers(query, part),
    findUniqueNames: (organizationId, usernames) => findUniqueNames(query, organizationId, usernames),
    listAgents: (part) => listAgents(query, part),
    listResources: (kind, part) => listResources(query, kind, part),
    switchOrganization: createSwitch(database),
    ...createTokenStore(database),
    noteTokenUse,
    ping: async () => {
      await query(statements.ping, [])
    },
  }
}

const createSwitch =
  ({ transaction }: Database): DirectoryStore['switchOrganization'] =>
  (userId, organizationId, audit) =>
    transaction(async (within) => {
      const values = [userId, organizationId]
      const [user] = await within<StoredOrganization>(statements.findStoredOrganization, values)
      if (!user?.is_member) throw new GatewayError('membership_lost')
      // Clients switch at each start. A write each time would be a change on every replica, and a line of the trail.
      if (user.stored === organizationId) return false
      const rows = await within(statements.switchOrganization, values)
      if (rows.length === 0) throw new GatewayError('membership_lost')
      await writeAudit(within, { action: 'organization.switched', subjectId: userId }, audit)
      return true
    })

type StoredOrganization = { stored: number | null; is_member: boolean }

async function findByIdentity(query: Query, issuer: string, subject: string): Promise<UserRecord | undefined> {
  const [row] = await query<{ user: UserRecord }>(statements.findByIdentity, [issuer, subject])
  return row?.user
}

/** Two members of one name, or a column that takes another spelling for equal (citext), name no member. */
async function findNamedMember(
  query: Query,
  organizationId: number,
  name: MemberName,
): Promise<UserRecord | undefined> {
  if ('id' in name) {
    const [row] = await query<{ user: UserRecord }>(statements.findMemberById, [organizationId, name.id])
    return row?.user
  }
  const rows = await query<{ user: UserRecord }>(statements.findMembersByUsername, [organizationId, name.username])
  const [row] = rows
  return rows.length === 1 && row?.user.username === name.username ? row.user : undefined
}

/** Locks the identity, so that among concurrent first logins on all replicas one creates the user. */
async function createByIdentity(query: Query, identity: NewIdentity, arrival: Arrival, refusesRemoved: boolean) {
  const { issuer, subject } = identity
  await query(statements.lockIdentity, [issuer, subject])
  const existing = await findByIdentity(query, issuer, subject)
  if (existing) return { user: existing, isLinked: false }
  if (refusesRemoved) await requireNeverRemoved(query, issuer, subject)
  const linkedId = await findLinkable(query, identity)
  const userId = linkedId ?? (await createUser(query, identity))
  // An existing identity leads to a user whom the view hides, because the backend has disabled it.
  await refuseDuplicate(query(statements.createIdentity, [userId, issuer, subject]))
  if (linkedId !== undefined) await auditLink(query, linkedId, arrival)
  const user = await findByIdentity(query, issuer, subject)
  if (!user) throw new GatewayError('internal')
  return { user, isLinked: linkedId !== undefined }
}

async function requireNeverRemoved(query: Query, issuer: string, subject: string): Promise<void> {
  const removed = await query(findRemovedIdentity, [issuer, subject])
  if (removed.length > 0) throw new GatewayError('user_removed')
  const [state] = await query<{ is_noted: boolean }>(areRemovalsNoted, [])
  if (!state?.is_noted) throw new GatewayError('directory_unavailable', { cause: new Error(unnoted) })
}

const auditLink = (query: Query, userId: number, arrival: Arrival): Promise<void> =>
  writeAudit(
    query,
    { action: 'identity.linked', subjectId: userId },
    { actorId: userId, credential: 'oauth', organizationId: null, ...arrival },
  )

/**
 * Returns the one human with this verified address. An unverified address may be an attacker's choice. With two matches
 * the choice could give access to another person's account.
 */
async function findLinkable(query: Query, { linkByEmail }: NewIdentity): Promise<number | undefined> {
  if (linkByEmail === undefined) return undefined
  const rows = await query<{ id: number }>(statements.findHumansByEmail, [linkByEmail])
  return rows.length === 1 ? rows[0]?.id : undefined
}

async function createUser(query: Query, identity: NewIdentity): Promise<number> {
  const { email, username, firstName, lastName, isEmailVerified } = identity
  const fullName = [firstName, lastName].filter((name) => name !== null).join(' ') || null
  const values = [email, username, firstName, lastName, fullName]
  const [row] = await refuseDuplicate(query<{ id: number }>(statements.createUser, values))
  // A trigger may also refuse the insert, if the backend takes no users from the gateway.
  if (!row) throw new GatewayError('user_declined')
  if (isEmailVerified) await query(statements.verifyEmail, [row.id, email])
  return row.id
}

const uniqueViolation = '23505'

/** The gateway's own tables have no such conflict, but an adopted database may refuse a user. */
async function refuseDuplicate<Result>(result: Promise<Result>): Promise<Result> {
  try {
    return await result
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== uniqueViolation) throw cause
    throw new GatewayError('user_conflict', { cause })
  }
}

export async function findUser(query: Query, id: number): Promise<UserRecord | undefined> {
  const [row] = await query<{ user: UserRecord }>(statements.findUser, [id])
  return row?.user
}

export const createReadFacts = (query: Query): ReadFacts => {
  const { findTokens } = createTokenLookups(query)
  const readByIds = <Row extends { id: number }>(statement: Statement, ids: readonly number[]) =>
    ids.length === 0 ? Promise.resolve<readonly Row[]>([]) : query<Row>(statement, [ids])
  const readUsers = async (issuers: readonly string[], subjects: readonly string[]) =>
    issuers.length === 0
      ? []
      : query<{ issuer: string; subject: string; user: UserRecord }>(statements.findByIdentities, [issuers, subjects])
  return async ({ identities, tokens, agents, clusters, resources }) => {
    const issuers = identities.map(({ issuer }) => issuer)
    const subjects = identities.map(({ subject }) => subject)
    const [userRows, foundTokens, agentRows, clusterRows, findRead] = await Promise.all([
      readUsers(issuers, subjects),
      findTokens(tokens),
      readByIds<AgentRow>(statements.findAgents, agents),
      readByIds<ClusterRow>(statements.findClusters, clusters),
      readResources(query, resources),
    ])
    return {
      users: new Map(userRows.map((row) => [nameIdentity(row), row.user])),
      tokens: foundTokens,
      agents: new Map(agentRows.map((row): [number, AgentRecord] => [row.id, toAgent(row)])),
      clusters: new Map(clusterRows.map((row): [number, ClusterRecord] => [row.id, toCluster(row)])),
      findResource: findRead,
    }
  }
}
