import { GatewayError } from '../../base/errors/gateway-error.ts'
import { endProcessBy } from '../../base/fault/end-process.ts'
import { guarded } from '../../base/fault/guarded.ts'
import { describeFailure } from '../../configuration/failure.ts'
import type { Directory } from '../../directory/directory.ts'
import { nameQueryFailure } from '../../directory/postgres/query-failure.ts'
import { PoolerError } from '../../directory/postgres/recognize-pooler.ts'
import type { FindSchemaFault } from '../../directory/postgres/schema-fault.ts'
import { type Server, type Servers, StandbyLagError } from '../../directory/postgres/servers.ts'
import { PartError } from '../../listeners/admin/readiness.ts'
import type { ProcessLog } from '../../observe/log/log.ts'

export const checkAnswersOf = (directory: Directory, hasGrace: () => boolean) => async (): Promise<void> => {
  try {
    await directory.ping()
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    const { cause, code } = error
    if (cause instanceof StandbyLagError || cause instanceof PoolerError) throw new PartError('failing', cause.message)
    if (isOutage(error) && hasGrace()) throw new PartError('limited', graceSentence)
    if (code === 'directory_unavailable') throw new PartError('failing', describeFailure(error).message)
    throw error
  }
}

export const checkWritesOf = (directory: Directory, servers: Servers) => async (): Promise<void> => {
  await directory.ping().catch(() => undefined)
  if (servers.current()?.isStandby) throw new PartError('limited', standbySentence)
}

export const isOutage = (error: unknown): boolean =>
  error instanceof GatewayError &&
  error.code === 'directory_unavailable' &&
  ['connection', 'timeout'].includes(nameQueryFailure(error.cause) ?? '')

const graceSentence = 'PostgreSQL does not answer; cached entries answer for directory.graceMs'

const standbySentence =
  'PostgreSQL at database.url is a standby: requests that change the directory, such as minting and first logins, get directory_read_only'

export function reportServer({ current }: Pick<Servers, 'current'>, log: ProcessLog): (server: Server) => void {
  let wasStandby = false
  return () => {
    const isStandby = current()?.isStandby === true
    if (isStandby === wasStandby) return
    wasStandby = isStandby
    if (isStandby) log.warn({}, standbySentence)
    else log.info({}, 'PostgreSQL at database.url is a primary again')
  }
}

/** Long beside a question of two statements, and short beside the time until an operator looks. */
const askAgainMs = 1_000

export type LedgerWatch = Readonly<{ requireUsable: () => Promise<void>; stop: () => void }>

/**
 * Ends a start whose program must not use the database. If the database does not answer, the start goes on, since an outage
 * must not keep replicas from starting. Then the first answer ends the process as an uncaught error does.
 */
export function obeyLedger(find: FindSchemaFault): LedgerWatch {
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  const ask = async (): Promise<Error | undefined> => {
    try {
      const fault = await find()
      return fault?.endsStart ? new Error(fault.cause) : undefined
    } catch {
      // The cause is told by the checks of readiness.
      if (!isStopped) timer = setTimeout(guarded('directory', askAgain), askAgainMs).unref()
      return undefined
    }
  }
  const askAgain = async (): Promise<void> => {
    const fault = await ask()
    if (fault && !isStopped) endProcessBy(fault)
  }
  return {
    requireUsable: async () => {
      const fault = await ask()
      if (fault) throw fault
    },
    stop: () => {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

export function reportSchema(find: FindSchemaFault, log: ProcessLog): () => Promise<void> {
  let told: string | undefined
  return async () => {
    const fault = await find()
    if (fault?.cause !== told) {
      if (fault) log.error({ cause: fault.cause }, 'database schema check failed')
      else log.info({}, 'database schema check passed again')
      told = fault?.cause
    }
    if (fault) throw new PartError(fault.state, fault.cause)
  }
}

export function reportShared(find: FindSchemaFault, log: ProcessLog): () => Promise<void> {
  let told: string | undefined
  return async () => {
    const fault = await find()
    if (fault && fault.cause !== told) log.warn({ cause: fault.cause }, 'organizations of the database are left out')
    told = fault?.cause
    if (fault) throw new PartError(fault.state, fault.cause)
  }
}
