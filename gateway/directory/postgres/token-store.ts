import { GatewayError } from '../../errors/gateway-error.ts'
import type { Directory } from '../directory.ts'
import { writeAudit } from './audit.ts'
import type { Database } from './pool.ts'
import { type TokenMetadataRow, toMetadata } from './rows.ts'
import * as statements from './statements.ts'

/** The directory's part that changes tokens; each change and its audit event are one transaction. */
export const createTokenStore = ({
  query,
  transaction,
}: Database): Pick<Directory, 'mintToken' | 'listTokens' | 'revokeToken'> => ({
  mintToken: ({ userId, name, hash, abilities, expiresAt }, audit) =>
    transaction(async (within) => {
      const values = [userId, name, hash, JSON.stringify(abilities), expiresAt]
      const [row] = await within<TokenMetadataRow>(statements.mintToken, values)
      if (!row) throw new GatewayError('internal')
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
      return toMetadata(row)
    }),
})
