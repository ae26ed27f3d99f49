import { standbyLag } from './servers.ts'

export type QueryFailure = 'statement' | 'timeout' | 'connection'

const sqlState = /^[0-9A-Z]{5}$/

const canceled = '57014'

/** Classes of a server that shuts down or accepts no connections: 08, 53 and 57P. */
const serverTrouble = /^(?:08|53|57P)/

/** `read_only_sql_transaction`: the server is a standby or read-only. */
export const readOnly = '25006'

/**
 * Undefined for a conflict with an existing row, and for a standby that lags or refuses a write: these are answers, not
 * failures.
 */
export function nameQueryFailure(error: unknown): QueryFailure | undefined {
  const { code } = error as NodeJS.ErrnoException
  if (code === standbyLag || code === readOnly) return undefined
  if (typeof code !== 'string' || !sqlState.test(code)) return 'connection'
  if (code === canceled) return 'timeout'
  if (code.startsWith('23')) return undefined
  return serverTrouble.test(code) ? 'connection' : 'statement'
}
