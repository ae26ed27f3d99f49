import type { UserRecord } from '../directory.ts'
import type { Query } from './pool.ts'
import * as statements from './statements.ts'

/** A user by the number of the row: for operators, who know it; no credential names one so. */
export async function findUser(query: Query, id: number): Promise<UserRecord | undefined> {
  const [row] = await query<{ user: UserRecord }>(statements.findUser, [id])
  return row?.user
}
