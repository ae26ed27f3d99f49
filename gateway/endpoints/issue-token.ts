import type {
  AuditContext,
  Directory,
  Lender,
  OrganizationSummary,
  TokenMetadata,
  UserRecord,
} from '../directory/directory.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import type { Roles } from '../policy/role.ts'
import { invalid, type JsonObject } from './read-body.ts'
import { readTokenRequest } from './read-token-request.ts'
import { type DrawInteger, formatToken, makeSecret } from './token-secret.ts'

/** What the rules about tokens work with, whoever asks: an endpoint or the command line. */
export type TokenTools = Readonly<{ directory: Directory; draw: DrawInteger; now: () => Date }>

/** Whose tokens they are. */
export type TokenOwner = Pick<UserRecord, 'id' | 'userType'>

/** The member whose tokens an organization may manage; only an Enterprise organization manages any. */
export async function findTokenOwner(
  organization: Pick<OrganizationSummary, 'id' | 'accountType'> | undefined,
  userId: number | undefined,
  directory: Directory,
): Promise<TokenOwner> {
  if (organization?.accountType !== 'enterprise') throw new GatewayError('enterprise_required')
  const owner = userId === undefined ? undefined : await directory.findMember(organization.id, userId)
  if (!owner) throw new GatewayError('user_not_a_member')
  return owner
}

/** Humans log in; API tokens are for service accounts alone. */
export function requireServiceAccount(owner: TokenOwner): void {
  if (owner.userType === 'human') throw invalid([clientManaged])
}

const clientManaged = {
  field: 'userId',
  rule: 'clientManaged',
  message: 'Only client-managed users can have API tokens.',
}

/** The caller of a mint: an operator has no lender. `latest` is when the token that the caller came with ends; null for never. */
export type Minting = Readonly<{ audit: AuditContext; lender?: Lender; latest: Date | null }>

/** Mints by a request as it came; its mistakes and the owner's are told together. The raw value is in the result alone. */
export async function issueToken(
  owner: TokenOwner,
  body: JsonObject,
  { tokenScopes }: Pick<Roles, 'tokenScopes'>,
  { audit, lender, latest }: Minting,
  { directory, draw, now }: TokenTools,
) {
  const earlier = owner.userType === 'human' ? [clientManaged] : []
  const { name, scope, expiresAt } = readTokenRequest(body, [...tokenScopes.keys()], { now: now(), latest }, earlier)
  const { secret, hash } = makeSecret(draw)
  const abilities = [...(tokenScopes.get(scope) ?? [])]
  const minted = await directory.mintToken({ userId: owner.id, name, hash, abilities, expiresAt }, lender, audit)
  return { token: formatToken(minted.id, secret), ...describeToken(minted) }
}

/** What may be shown of a token, as the specification spells it. */
export const describeToken = ({ id, name, abilities, lastUsedAt, expiresAt, createdAt }: TokenMetadata) => ({
  id,
  type: 'bearer',
  name,
  abilities,
  lastUsedAt: lastUsedAt?.toISOString() ?? null,
  expiresAt: expiresAt?.toISOString() ?? null,
  createdAt: createdAt?.toISOString() ?? null,
})
