import { endProcess } from '../base/fault/end-process.ts'
import { paintError } from '../base/lib/paint.ts'
import { escapeLines } from '../base/lib/text-table.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'

export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export type Failure = Readonly<{ exitCode: number; message: string }>

export class ReportedError extends Error {
  override readonly name = 'ReportedError'
  readonly exitCode: number

  constructor({ exitCode, message }: Failure) {
    super(message)
    this.exitCode = exitCode
  }
}

export function describeFailure(error: unknown): Failure {
  const message = error instanceof Error ? error.message : 'unknown error'
  if (error instanceof ReportedError) return { exitCode: error.exitCode, message }
  if (error instanceof ConfigurationError || error instanceof UsageError) return { exitCode: 2, message }
  return { exitCode: 1, message: explain(error, message) }
}

export async function reportFailure(error: unknown): Promise<never> {
  const { exitCode, message } = describeFailure(error)
  // A message may quote a file or a name from the database, and these may hold control characters.
  process.stderr.write(`${paintError(`sallyport: ${escapeLines(message)}`)}\n`)
  return endProcess(exitCode)
}

function explain(error: unknown, message: string): string {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  // A command that asks PostgreSQL without the directory gets the code of the server, an SQLSTATE.
  if (code !== undefined && /^\d/.test(code) && code in connectionAdvice) return explainDatabase(error)
  switch (code) {
    case 'EACCES':
      return `${message}. This user may not open it. Use a port above 1023, or another file.`
    case 'ECONNREFUSED':
      return `${message}. Check that the server runs and that its address is right.`
    case 'directory_unavailable':
      return explainDatabase((error as Error).cause)
    case 'ERR_MODULE_NOT_FOUND':
      return `${message}. Install the packages again. The demo needs the development packages too: clone the repository and run "npm start" there.`
    default:
      return message
  }
}

const connectionAdvice: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'no server listens there; start it, or mend host and port',
  ENOTFOUND: 'its host is not known; mend the host',
  EAI_AGAIN: 'its host could not be resolved; mend the host, or the name server',
  ENOENT: 'its socket does not exist; start the server, or mend the folder of the socket',
  '28P01': 'the server refused the password; mend it',
  '28000': 'the server refused the user; mend it, or pg_hba.conf',
  '3D000': 'the server has no such database; create it, or mend its name',
  '53300': 'the server has no connection left; raise max_connections, or lower database.poolSize',
}

/** SQLSTATEs of an outdated schema: a missing table or column, or a column that does not accept null yet. */
const outdated = new Set(['42P01', '42703', '23502'])

const notAllowed = '42501'

/** From the code alone: the driver's message may quote values of the statement. */
function explainDatabase(cause: unknown): string {
  const code = cause instanceof Error ? (cause as NodeJS.ErrnoException).code : undefined
  if (cause instanceof Error && code === 'ERR_POOLER') return cause.message
  if (code !== undefined && outdated.has(code))
    return `the schema is not up to date (${code}). Run "sallyport migrate", then "sallyport directory check".`
  if (code === notAllowed)
    return `the role of database.url may not do this (${code}). Run "sallyport directory check" to see what it lacks.`
  const advice = code === undefined ? undefined : connectionAdvice[code]
  return `database.url: ${advice ?? 'the database could not be asked; start it, or mend the address'} (${code ?? 'no answer'})`
}
