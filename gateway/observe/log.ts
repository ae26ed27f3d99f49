import { pino } from 'pino'
import { redact } from './redact.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Structured lines; no value that came with a request is ever part of the message. */
export type Log = Readonly<{
  info: (fields: LogFields, message: string) => void
  warn: (fields: LogFields, message: string) => void
  error: (fields: LogFields, message: string) => void
  flush: () => void
}>

/** The log of a process, which can also say that it ends. */
export type ProcessLog = Log & Readonly<{ fatal: (fields: LogFields, message: string) => void }>

export type LogFields = Readonly<Record<string, unknown>>

/** PIPE_BUF on Linux: a longer write to a full pipe may be mixed with another process' (pipe(7)). */
const atomicBytes = 4_096

/**
 * One JSON object a line on standard output, times in RFC 3339. `worker` is written on every line of a process that is
 * one of several; `isShared` where others write to the output as well.
 */
export function createLog(level: LogLevel, worker?: number, isShared = worker !== undefined): ProcessLog {
  const destination = pino.destination({ fd: 1, sync: false, minLength: 0, ...(isShared && { maxWrite: atomicBytes }) })
  const base = worker !== undefined ? { worker } : null
  const logger = pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime, formatters }, destination)
  return {
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    fatal: (fields, message) => logger.fatal(fields, message),
    flush: () => {
      try {
        destination.flushSync()
      } catch {
        // Standard output is gone or was never open; there is nobody left to tell.
      }
    },
  }
}

const formatters = { level: (label: string) => ({ level: label }) }

/**
 * The part of an error that may be written down: names, codes and messages along the chain of causes. Other
 * properties stay out, since libraries hang inputs, queries and connection options on their errors.
 */
export function describeError(error: unknown, depth = 0): LogFields {
  if (!(error instanceof Error)) return { name: typeof error }
  const { code } = error as NodeJS.ErrnoException
  return {
    name: error.name,
    ...(code !== undefined && { code }),
    message: redact(error.message),
    ...(error.cause !== undefined && depth < 4 && { cause: describeError(error.cause, depth + 1) }),
  }
}

/** For a bug of ours the place counts too. */
export const describeBug = (error: unknown): LogFields => ({
  ...describeError(error),
  ...(error instanceof Error && { stack: redact(String(error.stack).split('\n').slice(1, 12).join('\n')) }),
})
