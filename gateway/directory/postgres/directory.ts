import { GatewayError } from '../../errors/gateway-error.ts'
import type { Arrival, Directory, NewIdentity, UserRecord } from '../directory.ts'
import { writeAudit } from './audit.ts'
import type { Database, Query } from './pool.ts'
import {
  type AgentRow,
  type ClusterRow,
  type MemberRow,
  type OrganizationRow,
  type TokenRow,
  toCluster,
  toOrganization,
  toToken,
} from './rows.ts'
import * as statements from './statements.ts'
import { createTokenStore } from './token-store.ts'

/** What is done off the way of a request, or told of it. */
export type DirectoryReports = Readonly<{
  noteTokenUse: Directory['noteTokenUse']
  /** An identity has become one more of a user who was there before. */
  onLinked: (userId: number, issuer: string, arrival: Arrival) => void
}>

/** The directory on PostgreSQL, without any caching. */
export function createPostgresDirectory(database: Database, { noteTokenUse, onLinked }: DirectoryReports): Directory {
  const { query, transaction } = database
  return {
    findByIdentity: (issuer, subject) => findByIdentity(query, issuer, subject),
    createByIdentity: async (identity, arrival) => {
      const { user, isLinked } = await transaction((within) => createByIdentity(within, identity, arrival))
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
      return row && { id: row.id, organizationId: row.organization_id, isPublic: row.is_public }
    },
    findCluster: async (id) => {
      const [row] = await query<ClusterRow>(statements.findCluster, [id])
      return row && toCluster(row)
    },
    findMember: async (organizationId, userId) => {
      const [row] = await query<MemberRow>(statements.findMember, [organizationId, userId])
      return row && { id: row.id, userType: row.user_type }
    },
    switchOrganization: (userId, organizationId, audit) =>
      transaction(async (within) => {
        const rows = await within(statements.switchOrganization, [userId, organizationId])
        if (rows.length === 0) throw new GatewayError('membership_lost')
        await writeAudit(within, { action: 'organization.switched', subjectId: userId }, audit)
      }),
    ...createTokenStore(database),
    noteTokenUse,
    ping: async () => {
      await query(statements.ping, [])
    },
  }
}

async function findByIdentity(query: Query, issuer: string, subject: string): Promise<UserRecord | undefined> {
  const [row] = await query<{ user: UserRecord }>(statements.findByIdentity, [issuer, subject])
  return row?.user
}

/** Behind a lock on the identity: of any number of first logins, on any number of replicas, one creates. */
async function createByIdentity(query: Query, identity: NewIdentity, arrival: Arrival) {
  const { issuer, subject } = identity
  await query(statements.lockIdentity, [issuer, subject])
  const existing = await findByIdentity(query, issuer, subject)
  if (existing) return { user: existing, isLinked: false }
  const linkedId = await findLinkable(query, identity)
  const userId = linkedId ?? (await createUser(query, identity))
  // One that is there already leads to a user whom the view of users does not show: the backend has locked it out.
  await refuseDuplicate(query(statements.createIdentity, [userId, issuer, subject]))
  if (linkedId !== undefined) await auditLink(query, linkedId, arrival)
  const user = await findByIdentity(query, issuer, subject)
  if (!user) throw new GatewayError('internal')
  return { user, isLinked: linkedId !== undefined }
}

const auditLink = (query: Query, userId: number, arrival: Arrival): Promise<void> =>
  writeAudit(
    query,
    { action: 'identity.linked', subjectId: userId },
    { actorId: userId, credential: 'oauth', organizationId: null, ...arrival },
  )

/**
 * The one human whose verified address this is, since an unverified one may have been an attacker's to choose. Two of
 * them would make it a guess, and a guess is somebody else's account.
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
  // A backend whose addresses are unique has this one already.
  const [row] = await refuseDuplicate(query<{ id: number }>(statements.createUser, values))
  // Its trigger may decline as well: it takes no users from us.
  if (!row) throw new GatewayError('user_declined')
  if (isEmailVerified) await query(statements.verifyEmail, [row.id, email])
  return row.id
}

const uniqueViolation = '23505'

/** In our own tables there is nothing to collide with; an adopted database may have its own opinion of who gets in. */
async function refuseDuplicate<Result>(result: Promise<Result>): Promise<Result> {
  try {
    return await result
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== uniqueViolation) throw cause
    throw new GatewayError('user_conflict', { cause })
  }
}

/** A user by the number of the row: for operators, who know it; no credential names one so. */
export async function findUser(query: Query, id: number): Promise<UserRecord | undefined> {
  const [row] = await query<{ user: UserRecord }>(statements.findUser, [id])
  return row?.user
}
