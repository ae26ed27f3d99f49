import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Directory, Minter, TokenManager, UserRecord } from '../directory.ts'
import type { FindHashes, FindTokens } from '../lookups/token-lane.ts'
import { writeAudit } from './audit.ts'
import type { Database, Query } from './pool.ts'
import { parseAbilities, type TokenMetadataRow, type TokenRow, toMetadata, toToken } from './rows.ts'
import * as statements from './statements.ts'
import { type AncestorRow, isUnbroken, longestLine } from './token-line.ts'

export const createTokenStore = ({
  query,
  transaction,
}: Database): Pick<Directory, 'mintToken' | 'listTokens' | 'revokeToken'> => ({
  mintToken: ({ userId, organizationId, name, hash, abilities, expiresAt }, minter, audit) =>
    transaction(async (within) => {
      if (minter) await requireMinter(within, minter, userId, abilities)
      const values = [userId, name, hash, JSON.stringify(abilities), expiresAt]
      const [row] = await within<TokenMetadataRow>(statements.mintToken, values)
      if (!row) throw new GatewayError('internal')
      if (minter && minter.parentId !== null) await within(statements.noteParent, [row.id, minter.parentId])
      await within(statements.noteOrganization, [row.id, organizationId])
      await writeAudit(within, { action: 'token.minted', subjectId: userId, tokenId: row.id }, audit)
      return toMetadata(row)
    }),
  listTokens: async (userId, { page, perPage }, manager) => {
    const mintedIn = await findBound(query, manager, userId)
    const [count] = await query<{ total: number }>(statements.countTokens, [userId, mintedIn])
    const values = [userId, perPage, (page - 1) * perPage, mintedIn]
    const rows = await query<TokenMetadataRow>(statements.listTokens, values)
    return { total: count?.total ?? 0, tokens: rows.map(toMetadata) }
  },
  revokeToken: ({ id, userId }, audit, manager) =>
    transaction(async (within) => {
      const mintedIn = await findBound(within, manager, userId)
      const [row] = await within<TokenMetadataRow>(statements.revokeToken, [id, userId, mintedIn])
      if (!row) return undefined
      await writeAudit(within, { action: 'token.revoked', subjectId: userId, tokenId: id }, audit)
      const { actorId, credential, organizationId, clientAddress, requestId } = audit
      await within(statements.revokeDescendants, [id, actorId, credential, organizationId, clientAddress, requestId])
      return toMetadata(row)
    }),
})

export const createTokenLookups = (query: Query): Readonly<{ findHashes: FindHashes; findTokens: FindTokens }> => ({
  findHashes: async (ids) => {
    const rows = await query<{ id: number; hash: string }>(statements.findTokenHashes, [ids])
    return new Map(rows.map(({ id, hash }) => [id, hash]))
  },
  findTokens: async (ids) => {
    const rows = ids.length === 0 ? [] : await query<TokenRow>(statements.findTokens, [ids])
    const tokens = rows.map(toToken).filter((token) => token !== undefined)
    return new Map(tokens.map((token) => [token.id, token]))
  },
})

/** The organization whose mints alone the manager may see, or null for the mints of all. */
async function findBound(query: Query, manager: TokenManager | undefined, ownerId: number): Promise<number | null> {
  if (!manager) return null
  const { minter, owner } = await findMinterAndOwner(query, manager.userId, ownerId, null)
  return manager.mayMint(minter, owner) ? null : manager.organizationId
}

async function findMinterAndOwner(query: Query, minterId: number, ownerId: number, parentId: number | null) {
  const [facts] = await query<MintFacts>(statements.findMinterAndOwner, [minterId, ownerId, parentId])
  const { minter, owner } = facts ?? {}
  if (!minter) throw new GatewayError('minter_gone')
  if (!owner) throw new GatewayError('user_not_a_member')
  return { ...facts, minter, owner }
}

/** In AdonisJS' notation, `*` stands for all abilities. */
const isWithin = (abilities: readonly string[], held: readonly string[]): boolean =>
  held.includes('*') || abilities.every((ability) => held.includes(ability))

type MintFacts = {
  minter: UserRecord | null
  owner: UserRecord | null
  parent_abilities: string | null
  ancestors: AncestorRow[] | null
}

/**
 * Reads within the mint's transaction, because caches may be a second old. The parent needs no lock: if it is revoked
 * meanwhile, the new token has a missing ancestor and is refused.
 */
async function requireMinter(
  within: Query,
  { userId, parentId, requireReach }: Minter,
  ownerId: number,
  abilities: readonly string[],
) {
  const facts = await findMinterAndOwner(within, userId, ownerId, parentId)
  const { minter, owner, parent_abilities: held, ancestors } = facts
  requireReach(minter, owner)
  if (parentId === null) return
  const line = ancestors ?? []
  if (typeof held !== 'string' || !isUnbroken(line)) throw new GatewayError('parent_token_gone')
  if (!isWithin(abilities, parseAbilities(held))) throw new GatewayError('token_ability_missing')
  if (line.length === longestLine) throw new GatewayError('token_line_too_long')
}
