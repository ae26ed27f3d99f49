import type { TokenMetadata } from '../directory/directory.ts'
import { formatTable } from '../lib/text-table.ts'
import type { Roles } from '../policy/role.ts'

/** A line a token: what a person looks for before revoking one. */
export function describeTokens(tokens: readonly TokenMetadata[], scopes: Roles['tokenScopes'], now: Date): string {
  const header = ['ID', 'NAME', 'SCOPE', 'LAST USED', 'EXPIRES', 'CREATED']
  const rows = tokens.map(({ id, name, abilities, lastUsedAt, expiresAt, createdAt }) => [
    String(id),
    name ?? '-',
    nameScope(abilities, scopes),
    lastUsedAt?.toISOString() ?? 'never',
    describeExpiry(expiresAt, now),
    createdAt?.toISOString() ?? '-',
  ])
  return formatTable(header, rows)
}

/** Tokens of an older policy, or of another program, hold abilities that are no scope of today's. */
function nameScope(abilities: readonly string[], scopes: Roles['tokenScopes']): string {
  const held = new Set(abilities)
  for (const [scope, of] of scopes)
    if (of.size === held.size && [...of].every((ability) => held.has(ability))) return scope
  return held.size === 1 ? '1 ability' : `${held.size} abilities`
}

function describeExpiry(expiresAt: Date | null, now: Date): string {
  if (expiresAt === null) return 'never'
  return `${expiresAt.toISOString()}${expiresAt <= now ? ' (expired)' : ''}`
}
