import { GatewayError } from '../../base/errors/gateway-error.ts'
import { claimQuestion, noteVerified } from './event-streams.ts'
import { failing, findLedgerFault, type SchemaFault } from './ledger-fault.ts'
import { dropExpiredLogouts, readLogouts, widenIssuer, widenSubjects, writeLogouts } from './logouts.ts'
import type { Database, Statement } from './pool.ts'
import { readSessionEnds } from './session-ends.ts'
import { areRemovalsNoted, findRemovedIdentity, unnoted } from './shared-organizations.ts'
import * as statements from './statements.ts'

export type FindSchemaFault = () => Promise<SchemaFault | undefined>

/** A good result is reused for this time, unless a statement fails for its text or rights meanwhile. */
const goodMs = 10_000

/** A bad result is reused too, so that probes do not add load to a database that is being migrated. */
const badMs = 1_000

export type SchemaWatch = Readonly<{
  find: FindSchemaFault
  noteFailure: (error: unknown) => void
}>

export function watchSchema(look: FindSchemaFault, monotonicMs: () => number): SchemaWatch {
  let last: Readonly<{ fault: SchemaFault | undefined; atMs: number }> | undefined
  let pending: Promise<SchemaFault | undefined> | undefined
  const lookNow = async (): Promise<SchemaFault | undefined> => {
    const atMs = monotonicMs()
    try {
      const fault = await look()
      last = { fault, atMs }
      return fault
    } catch (error) {
      if (last) return last.fault
      throw error
    } finally {
      pending = undefined
    }
  }
  return {
    find: async () => {
      if (last && monotonicMs() - last.atMs < (last.fault ? badMs : goodMs)) return last.fault
      pending ??= lookNow()
      return pending
    },
    noteFailure: (error) => {
      if (last?.fault === undefined && isSchemaError(codeOf(error))) last = undefined
    },
  }
}

const reads: readonly Statement[] = [
  statements.findByIdentity,
  statements.findToken,
  statements.findTokenHashes,
  statements.findOrganization,
  statements.findAgent,
  statements.findCluster,
  statements.findMember,
  statements.findMinterAndOwner,
  statements.findStoredOrganization,
  statements.findMemberById,
  statements.findMembersByUsername,
  statements.listTokens,
  statements.countTokens,
  readSessionEnds,
  readLogouts,
]

const writes: readonly Statement[] = [
  statements.createUser,
  statements.createIdentity,
  statements.verifyEmail,
  statements.switchOrganization,
  statements.mintToken,
  statements.noteParent,
  statements.noteOrganization,
  statements.revokeToken,
  statements.revokeDescendants,
  statements.writeAudit,
  statements.noteTokenUses,
  writeLogouts,
  widenSubjects,
  widenIssuer,
  dropExpiredLogouts,
  claimQuestion,
  noteVerified,
]

/**
 * EXPLAIN without ANALYZE runs nothing, but resolves names and checks rights, also on the tables behind views
 * (PostgreSQL's ExecutorStart).
 */
const explain = ({ text }: Statement): string => `explain (costs off) ${text.replace(/\$\d+/g, 'null')}`

const explainAll = (statements: readonly Statement[]): Statement => ({
  name: 'check-reads',
  text: statements.map(explain).join(';\n'),
})
const explainWrites: readonly Statement[] = writes.map((write) => ({ name: 'check-writes', text: explain(write) }))

export const createFindSchemaFault =
  ({ query, script }: Database, refusesRemoved: boolean): FindSchemaFault =>
  async () => {
    const outdated = await findLedgerFault(query)
    if (outdated) return outdated
    const unreadable = await findRefusal(script, explainAll(refusesRemoved ? [...reads, findRemovedIdentity] : reads))
    if (unreadable) return unreadable
    let limit = refusesRemoved ? await findUnnoted(query) : undefined
    for (const statement of explainWrites) {
      const fault = await findRefusal(script, statement)
      if (fault?.state === 'failing') return fault
      limit ??= fault
    }
    return limit
  }

async function findUnnoted(query: Database['query']): Promise<SchemaFault | undefined> {
  const [state] = await query<{ is_noted: boolean }>(areRemovalsNoted, [])
  return state?.is_noted ? undefined : { state: 'limited', cause: unnoted }
}

const next = '"sallyport directory check" names all that is missing'

async function findRefusal(script: Database['script'], statement: Statement): Promise<SchemaFault | undefined> {
  try {
    await script(statement)
    return undefined
  } catch (error) {
    const code = codeOf(error)
    if (code === undefined || !/^[0-9A-Z]{5}$/.test(code)) throw error
    const { message } = (error as GatewayError).cause as Error
    if (code === notUpdatable) return { state: 'limited', cause: `${message} (${code}); ${next}` }
    if (isSchemaError(code)) return failing(`${message} (${code}); ${next}`)
    throw error
  }
}

/** `object_not_in_prerequisite_state`: a view refuses writes, which an adopted database may intend. */
const notUpdatable = '55000'

/**
 * Syntax error or access rule violation (42), invalid schema name (3F): a table, column, function or right is missing.
 */
const isSchemaError = (code: string | undefined): boolean => code !== undefined && /^(?:42|3F)/.test(code)

function codeOf(error: unknown): string | undefined {
  const { code } = (error instanceof GatewayError ? error.cause : error) as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}
