import { fstatSync } from 'node:fs'
import { isatty } from 'node:tty'
import { pino } from 'pino'
import { bufferLines, type LineSink } from './line-buffer.ts'
import { prettify } from './pretty-line.ts'
import { redact } from './redact.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** `auto` is `pretty` on a terminal, and `json` everywhere else. */
export type LogFormat = 'auto' | 'json' | 'pretty'

/** Structured lines; no value that came with a request is ever part of the message. */
export type Log = Readonly<{
  /** The line of a request, of which there may be thousands a second: it may leave a moment later, with others. */
  request: (fields: LogFields) => void
  info: (fields: LogFields, message: string) => void
  warn: (fields: LogFields, message: string) => void
  error: (fields: LogFields, message: string) => void
  flush: () => void
}>

/** The log of a process, which can also say that it ends, and what is of interest only while one looks for something. */
export type ProcessLog = Log & Readonly<Record<'debug' | 'fatal', (fields: LogFields, message: string) => void>>

export type LogFields = Readonly<Record<string, unknown>>

/** PIPE_BUF on Linux: a longer write to a full pipe may be mixed with another process' (pipe(7)). */
const atomicBytes = 4_096

/** As much as is written at once where nothing can come between: nobody else writes, or each write is one, as to files. */
const writtenBytes = 65_536

/** For how long the line of a request may wait for others. */
const delayMs = 100

/**
 * One JSON object a line on standard output, times in RFC 3339. `worker` is written on every line of a process that is
 * one of several; `isShared` where others write to the output as well.
 */
export function createLog(
  level: LogLevel,
  worker?: number,
  isShared = worker !== undefined,
  format: LogFormat = 'json',
): ProcessLog {
  const maxWrite = isShared && !isFile(1) ? atomicBytes : writtenBytes
  const destination = pino.destination({ fd: 1, sync: false, minLength: 0, maxWrite, contentMode: 'buffer' })
  // As bytes, for which its types have no word: of text it would count them again with each line that follows.
  const output: LineSink = { write: (text) => destination.write(Buffer.from(text) as unknown as string) }
  const isPretty = format === 'pretty' || (format === 'auto' && isatty(1))
  const sink = isPretty ? prettify(output, isatty(1) && !process.env.NO_COLOR) : output
  const lines = bufferLines(sink, maxWrite, delayMs)
  // What is rare leaves at once, behind what was said before it.
  const atOnce = {
    write: (line: string): void => {
      lines.flush()
      sink.write(line)
    },
  }
  const base = worker !== undefined ? { worker } : null
  const logger = pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime, formatters }, atOnce)
  const start = worker !== undefined ? `"worker":${worker},` : ''
  return {
    request: logger.isLevelEnabled('info')
      ? (fields) => lines.write(composeRequestLine(start, fields))
      : () => undefined,
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    fatal: (fields, message) => logger.fatal(fields, message),
    flush: () => {
      try {
        lines.flush()
        destination.flushSync()
      } catch {
        // Standard output is gone or was never open; there is nobody left to tell.
      }
    },
  }
}

function isFile(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isFile()
  } catch {
    return false
  }
}

/** As pino writes it, but without its general ways: it is a part of what each request costs. */
const composeRequestLine = (start: string, fields: LogFields): string =>
  `{"level":"info","time":"${currentTime()}",${start}${JSON.stringify(fields).slice(1, -1)},"msg":"request"}\n`

let timeMs = 0
let timeText = ''

/** RFC 3339, composed once a millisecond. */
function currentTime(): string {
  const nowMs = Date.now()
  if (nowMs !== timeMs) {
    timeMs = nowMs
    timeText = new Date(nowMs).toISOString()
  }
  return timeText
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
