import { GatewayError } from '../../errors/gateway-error.ts'
import type { Directory, Minter, UserRecord } from '../directory.ts'
import type { FindHashes, FindTokens } from '../lookups/token-lane.ts'
import { writeAudit } from './audit.ts'
import type { Database, Query } from './pool.ts'
import { type TokenMetadataRow, type TokenRow, toMetadata, toToken } from './rows.ts'
import * as statements from './statements.ts'
import { type AncestorRow, isUnbroken, longestLine } from './token-line.ts'

export const createTokenStore = ({
  query,
  transaction,
}: Database): Pick<Directory, 'mintToken' | 'listTokens' | 'revokeToken'> => ({
  mintToken: ({ userId, name, hash, abilities, expiresAt }, minter, audit) =>
    transaction(async (within) => {
      if (minter) await requireMinter(within, minter, userId)
      const values = [userId, name, hash, JSON.stringify(abilities), expiresAt]
      const [row] = await within<TokenMetadataRow>(statements.mintToken, values)
      if (!row) throw new GatewayError('internal')
      if (minter && minter.parentId !== null) await within(statements.noteParent, [row.id, minter.parentId])
      await writeAudit(within, { action: 'token.minted', subjectId: userId, tokenId: row.id }, audit)
      return toMetadata(row)
    }),
  listTokens: async (userId, { page, perPage }) => {
    const [count] = await query<{ total: number }>(statements.countTokens, [userId])
    const rows = await query<TokenMetadataRow>(statements.listTokens, [userId, perPage, (page - 1) * perPage])
    return { total: count?.total ?? 0, tokens: rows.map(toMetadata) }
  },
  revokeToken: ({ id, userId }, audit) =>
    transaction(async (within) => {
      const [row] = await within<TokenMetadataRow>(statements.revokeToken, [id, userId])
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

type MintFacts = {
  minter: UserRecord | null
  owner: UserRecord | null
  is_parent_there: boolean
  ancestors: AncestorRow[] | null
}

/**
 * Reads within the mint's transaction, because caches may be a second old. The parent needs no lock: if it is revoked
 * meanwhile, the new token has a missing ancestor and is refused.
 */
async function requireMinter(within: Query, { userId, parentId, requireReach }: Minter, ownerId: number) {
  const [facts] = await within<MintFacts>(statements.findMinterAndOwner, [userId, ownerId, parentId])
  const { minter, owner, is_parent_there, ancestors } = facts ?? {}
  if (!minter) throw new GatewayError('minter_gone')
  if (!owner) throw new GatewayError('user_not_a_member')
  requireReach(minter, owner)
  if (parentId === null) return
  const line = ancestors ?? []
  if (!is_parent_there || !isUnbroken(line)) throw new GatewayError('parent_token_gone')
  if (line.length === longestLine) throw new GatewayError('token_line_too_long')
}
