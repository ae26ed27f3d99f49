import { ConfigurationError } from '../policy/configuration-error.ts'

/** A mistake in how a command was called: exit code 2, and a sentence that says what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Ends the process as the contract says: 2 for bad usage or configuration, 1 for anything that failed. */
export function reportFailure(error: unknown): never {
  const isOurs = error instanceof ConfigurationError || error instanceof UsageError
  const message = error instanceof Error ? error.message : 'unknown error'
  process.stderr.write(`sallyport: ${isOurs ? message : explain(error, message)}\n`)
  process.exit(isOurs ? 2 : 1)
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
      return 'the demo needs the development packages: clone the repository and run "npm start" there'
    default:
      return message
  }
}

/** SQLSTATEs of a schema that lacks what we ask for: a table, a column, or a null that it does not take yet. */
const outdated = new Set(['42P01', '42703', '23502'])

/** By its code alone: what the driver says may hold values of the statement. */
function explainDatabase(cause: unknown): string {
  const code = cause instanceof Error ? (cause as NodeJS.ErrnoException).code : undefined
  if (code !== undefined && outdated.has(code)) return `the schema is not up to date (${code}); run "sallyport migrate"`
  return `the database could not be asked (${code ?? 'no answer'}); is it running, and is database.url right?`
}
