import { endProcess } from '../fault/end-process.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'

/** A mistake in how a command was called: exit code 2, and a sentence that says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A failure in words: the sentence for the terminal, and the exit code. */
export type Failure = Readonly<{ exitCode: number; message: string }>

/** A failure that another process of ours has put into words already. */
export class ReportedError extends Error {
  override readonly name = 'ReportedError'
  readonly exitCode: number

  constructor({ exitCode, message }: Failure) {
    super(message)
    this.exitCode = exitCode
  }
}

/** Puts a failure into words; 2 is bad usage or configuration, 1 anything that failed. */
export function describeFailure(error: unknown): Failure {
  const message = error instanceof Error ? error.message : 'unknown error'
  if (error instanceof ReportedError) return { exitCode: error.exitCode, message }
  if (error instanceof ConfigurationError || error instanceof UsageError) return { exitCode: 2, message }
  return { exitCode: 1, message: explain(error, message) }
}

/** Ends the process as the contract says. */
export async function reportFailure(error: unknown): Promise<never> {
  const { exitCode, message } = describeFailure(error)
  process.stderr.write(`sallyport: ${message}\n`)
  return endProcess(exitCode)
}

function explain(error: unknown, message: string): string {
  switch ((error as NodeJS.ErrnoException | undefined)?.code) {
    case 'EADDRINUSE':
      return `${message}; another program has this port: change listeners in the configuration`
    case 'EACCES':
      return `${message}; this user may not open it: take a port above 1023, or another file`
    case 'ECONNREFUSED':
      return `${message}; is the server running, and is its address right?`
    case 'directory_unavailable':
      return explainDatabase((error as Error).cause)
    case 'ERR_MODULE_NOT_FOUND':
      return `${message}; install the packages again; for the demo, which needs those of development too, clone the repository and run "npm start" there`
    default:
      return message
  }
}

/** SQLSTATEs of a schema that lacks what we ask for: a table, a column, or a null that it does not take yet. */
const outdated = new Set(['42P01', '42703', '23502'])

const notAllowed = '42501'

/** By its code alone: what the driver says may hold values of the statement. */
function explainDatabase(cause: unknown): string {
  const code = cause instanceof Error ? (cause as NodeJS.ErrnoException).code : undefined
  if (cause instanceof Error && code === 'ERR_POOLER') return cause.message
  if (code !== undefined && outdated.has(code))
    return `the schema is not up to date (${code}); run "sallyport migrate", then "sallyport directory check"`
  if (code === notAllowed)
    return `the role of database.url may not do this (${code}); "sallyport directory check" says what it lacks`
  return `the database could not be asked (${code ?? 'no answer'}); is it running, and is database.url right?`
}
