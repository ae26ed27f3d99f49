import { standbyLag } from './servers.ts'

/** What became of a statement that failed: the server refused it, nobody answered in time, or nobody could be asked. */
export type QueryFailure = 'statement' | 'timeout' | 'connection'

/** SQLSTATE: five letters and digits, of which the first two are the class. */
const sqlState = /^[0-9A-Z]{5}$/

/** `query_canceled`: by `statement_timeout`. */
const canceled = '57014'

/** Classes of a server that goes down, or takes nobody: 08, 53 and 57P. */
const serverTrouble = /^(?:08|53|57P)/

/** read_only_sql_transaction: the server is a standby, or its database was made read-only. */
export const readOnly = '25006'

/** Undefined where a row was there before ours, or a standby takes no writes or lags: that is an answer, and no failure. */
export function nameQueryFailure(error: unknown): QueryFailure | undefined {
  const { code } = error as NodeJS.ErrnoException
  if (code === standbyLag || code === readOnly) return undefined
  if (typeof code !== 'string' || !sqlState.test(code)) return 'connection'
  if (code === canceled) return 'timeout'
  if (code.startsWith('23')) return undefined
  return serverTrouble.test(code) ? 'connection' : 'statement'
}
