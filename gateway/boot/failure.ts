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
    case 'ERR_MODULE_NOT_FOUND':
      return 'the demo needs the development packages: clone the repository and run "npm start" there'
    default:
      return message
  }
}
