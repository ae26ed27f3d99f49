import type { Query } from './pool.ts'
import * as statements from './statements.ts'

/** Tells a user without tokens from an id that was mistyped. */
export async function isUser(query: Query, id: number): Promise<boolean> {
  const rows = await query(statements.isUser, [id])
  return rows.length > 0
}
