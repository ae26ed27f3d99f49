import type {
  AgentRecord,
  ClusterRecord,
  OrganizationRecord,
  TokenMetadata,
  TokenRecord,
  UserRecord,
} from '../directory.ts'
import { type AncestorRow, findEnd, isUnbroken } from './token-line.ts'

export type TokenMetadataRow = {
  id: number
  name: string | null
  abilities: string
  last_used_at: Date | null
  expires_at: Date | null
  created_at: Date | null
}

export type TokenRow = TokenMetadataRow & { hash: string; user: UserRecord; ancestors: AncestorRow[] | null }

export type OrganizationRow = {
  id: number
  name: string
  slug: string
  description: string | null
  logo_url: string | null
  website_url: string | null
  contact_email: string | null
  location: string | null
  company_size: string | null
  domain: string | null
  account_type: OrganizationRecord['accountType']
  is_verified: boolean
  created_at: Date
  updated_at: Date
  member_count: number
}

export type MemberRow = { id: number; user_type: UserRecord['userType'] }

export type AgentRow = { id: number; organization_id: number; is_public: boolean }

export type ClusterRow = {
  id: number
  organization_id: number
  slug: string
  base_url: string
  status: string
  last_heartbeat_at: Date | null
}

export const toMetadata = (row: TokenMetadataRow): TokenMetadata => ({
  id: row.id,
  name: row.name,
  abilities: parseAbilities(row.abilities),
  lastUsedAt: row.last_used_at,
  expiresAt: row.expires_at,
  createdAt: row.created_at,
})

export function toToken(row: TokenRow): TokenRecord | undefined {
  const line = row.ancestors ?? []
  if (!isUnbroken(line)) return undefined
  const ancestors = line.map(({ id, userId }) => ({ id, userId: userId ?? 0 }))
  return { ...toMetadata(row), expiresAt: findEnd(row.expires_at, line), hash: row.hash, user: row.user, ancestors }
}

/** AdonisJS stores a JSON array in a text column; any other text grants nothing. */
export function parseAbilities(text: string): readonly string[] {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every((part) => typeof part === 'string') ? value : []
  } catch {
    return []
  }
}

export const toOrganization = (row: OrganizationRow): OrganizationRecord => ({
  id: row.id,
  name: row.name,
  slug: row.slug,
  description: row.description,
  logoUrl: row.logo_url,
  websiteUrl: row.website_url,
  contactEmail: row.contact_email,
  location: row.location,
  companySize: row.company_size,
  domain: row.domain,
  accountType: row.account_type,
  isVerified: row.is_verified,
  memberCount: row.member_count,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
})

export const toAgent = (row: AgentRow): AgentRecord => ({
  id: row.id,
  organizationId: row.organization_id,
  isPublic: row.is_public,
})

/** A cluster with an unknown status must not serve, so it counts as being deleted. */
export const readClusterStatus = (status: string): Pick<ClusterRecord, 'isSuspended' | 'isDeleting'> => ({
  isSuspended: status === 'suspended',
  isDeleting: status !== 'active' && status !== 'suspended',
})

export const toCluster = (row: ClusterRow): ClusterRecord => ({
  id: row.id,
  organizationId: row.organization_id,
  slug: row.slug,
  baseUrl: row.base_url,
  ...readClusterStatus(row.status),
  lastHeartbeatAt: row.last_heartbeat_at,
})
