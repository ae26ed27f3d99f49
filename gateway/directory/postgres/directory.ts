import { GatewayError } from '../../errors/gateway-error.ts'
import type { Directory, NewIdentity, UserRecord } from '../directory.ts'
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

/** The directory on PostgreSQL, without any caching. */
export function createPostgresDirectory(database: Database, noteTokenUse: Directory['noteTokenUse']): Directory {
  const { query, transaction } = database
  return {
    findByIdentity: (issuer, subject) => findByIdentity(query, issuer, subject),
    createByIdentity: (identity) => transaction((within) => createByIdentity(within, identity)),
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
        if (rows.length === 0) throw new GatewayError('organization_forbidden')
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
async function createByIdentity(query: Query, identity: NewIdentity): Promise<UserRecord> {
  const { issuer, subject } = identity
  await query(statements.lockIdentity, [issuer, subject])
  const existing = await findByIdentity(query, issuer, subject)
  if (existing) return existing
  const userId = (await findLinkable(query, identity)) ?? (await createUser(query, identity))
  // One that is there already leads to a user whom the view of users does not show: the backend has locked it out.
  await refuseDuplicate(query(statements.createIdentity, [userId, issuer, subject]))
  const created = await findByIdentity(query, issuer, subject)
  if (!created) throw new GatewayError('internal')
  return created
}

/** The one human with this address. Two of them would make it a guess, and a guess is somebody else's account. */
async function findLinkable(query: Query, { linkByEmail }: NewIdentity): Promise<number | undefined> {
  if (linkByEmail === undefined) return undefined
  const rows = await query<{ id: number }>(statements.findHumansByEmail, [linkByEmail])
  return rows.length === 1 ? rows[0]?.id : undefined
}

async function createUser(query: Query, identity: NewIdentity): Promise<number> {
  const { email, username, firstName, lastName } = identity
  const fullName = [firstName, lastName].filter((name) => name !== null).join(' ') || null
  const values = [email, username, firstName, lastName, fullName]
  // A backend whose addresses are unique has this one already.
  const [row] = await refuseDuplicate(query<{ id: number }>(statements.createUser, values))
  // Its trigger may decline as well: it takes no users from us.
  if (!row) throw new GatewayError('unauthenticated')
  return row.id
}

const uniqueViolation = '23505'

/** In our own tables there is nothing to collide with; an adopted database may have its own opinion of who gets in. */
async function refuseDuplicate<Result>(result: Promise<Result>): Promise<Result> {
  try {
    return await result
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== uniqueViolation) throw cause
    throw new GatewayError('unauthenticated', { cause })
  }
}
