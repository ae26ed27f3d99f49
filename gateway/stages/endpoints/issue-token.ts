import { GatewayError } from '../../base/errors/gateway-error.ts'
import type {
  AuditContext,
  Directory,
  KnownUser,
  Minter,
  OrganizationSummary,
  TokenMetadata,
  UserRecord,
} from '../../directory/directory.ts'
import { type AbilitySet, holds, type Roles } from '../../policy/role.ts'
import { invalid, type JsonObject } from './read-body.ts'
import { readTokenRequest } from './read-token-request.ts'
import { type DrawInteger, formatToken, makeSecret } from './token-secret.ts'

export type TokenTools = Readonly<{ directory: Directory<KnownUser>; draw: DrawInteger; now: () => Date }>

export type TokenOwner = Pick<UserRecord, 'id' | 'userType'>

export async function findTokenOwner(
  organization: Pick<OrganizationSummary, 'id' | 'accountType'> | undefined,
  userId: number | undefined,
  directory: TokenTools['directory'],
): Promise<TokenOwner> {
  if (organization?.accountType !== 'enterprise') throw new GatewayError('enterprise_required')
  const owner = userId === undefined ? undefined : await directory.findMember(organization.id, userId)
  if (!owner) throw new GatewayError('user_not_a_member')
  return owner
}

export function requireServiceAccount(owner: TokenOwner): void {
  if (owner.userType === 'human') throw invalid([clientManaged])
}

const clientManaged = {
  field: 'userId',
  rule: 'clientManaged',
  message: 'Only client-managed users can have API tokens.',
}

/**
 * Context of a mint. An operator has no `minter`. `within` has the abilities of the caller's credential, which no token
 * that it mints may exceed. `latest` is the expiry of the caller's token, or null if it never expires.
 */
export type Minting = Readonly<{
  organizationId: number
  audit: AuditContext
  minter?: Minter
  within: AbilitySet
  latest: Date | null
}>

/** Mints a token, or throws all mistakes of the request together. Only the result holds the raw token. */
export async function issueToken(
  owner: TokenOwner,
  body: JsonObject,
  { tokenScopes }: Pick<Roles, 'tokenScopes'>,
  { organizationId, audit, minter, within, latest }: Minting,
  { directory, draw, now }: TokenTools,
) {
  const earlier = owner.userType === 'human' ? [clientManaged] : []
  const { name, scope, expiresAt } = readTokenRequest(body, [...tokenScopes.keys()], { now: now(), latest }, earlier)
  const { secret, hash } = makeSecret(draw)
  const abilities = [...(tokenScopes.get(scope) ?? [])]
  if (!abilities.every((ability) => holds(within, ability))) throw new GatewayError('token_ability_missing')
  const token = { userId: owner.id, organizationId, name, hash, abilities, expiresAt }
  const minted = await directory.mintToken(token, minter, audit)
  return { token: formatToken(minted.id, secret), ...describeToken(minted) }
}

export const describeToken = ({ id, name, abilities, lastUsedAt, expiresAt, createdAt }: TokenMetadata) => ({
  id,
  type: 'bearer',
  name,
  abilities,
  lastUsedAt: lastUsedAt?.toISOString() ?? null,
  expiresAt: expiresAt?.toISOString() ?? null,
  createdAt: createdAt?.toISOString() ?? null,
})
