/** A connection pooler that the configuration does not name; the message says what to do. */
export class PoolerError extends Error {
  override readonly name = 'PoolerError'
  readonly code = 'ERR_POOLER'
}

const remedy = 'set database.pooler to transaction (docs/guides/postgresql.md)'

/** What PostgreSQL says of prepared statements that are not as their connection should know them. */
const collisions: ReadonlySet<unknown> = new Set([
  '42P05', // duplicate_prepared_statement
  '26000', // invalid_sql_statement_name
])

const protocolViolation = '08P01'

/** The place in PostgreSQL that compares the values of a statement with those it was prepared for. */
const bindRoutine = 'exec_bind_message'

/** PgBouncer has one SQLSTATE for all of its own refusals; only their text tells them apart (pgbouncer/src/client.c). */
const startupRefusal = /^unsupported startup parameter\b/

/** Undefined where a failure shows no pooler. */
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
