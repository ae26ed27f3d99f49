export class PoolerError extends Error {
  override readonly name = 'PoolerError'
  readonly code = 'ERR_POOLER'
}

const remedy = 'set database.pooler to transaction (docs/guides/postgresql.md)'

const collisions: ReadonlySet<unknown> = new Set([
  '42P05', // duplicate_prepared_statement
  '26000', // invalid_sql_statement_name
])

const protocolViolation = '08P01'

/** The PostgreSQL function that compares a statement's values with its prepared parameters. */
const bindRoutine = 'exec_bind_message'

/** PgBouncer uses one SQLSTATE for all its refusals, so only the text differs (pgbouncer/src/client.c). */
const startupRefusal = /^unsupported startup parameter\b/

export function recognizePooler(cause: unknown): PoolerError | undefined {
  const { code, message, routine } = cause as Error & { code?: string; routine?: string }
  if (code === protocolViolation && startupRefusal.test(message))
    return new PoolerError(`a connection pooler refuses startup parameters; ${remedy}`, { cause })
  if (collisions.has(code) || (code === protocolViolation && routine === bindRoutine))
    return new PoolerError(
      `prepared statements are lost or mixed up, as by a connection pooler that shares connections; ${remedy}`,
      { cause },
    )
  return undefined
}
