import { fstatSync } from 'node:fs'
import { isatty } from 'node:tty'
import { pino } from 'pino'
import { LineWriter } from '../audit/line-writer.ts'
import { atomicBytes, openStream } from '../audit/sink.ts'
import type { LogMetrics } from '../metrics/log.ts'
import { bufferLines, type LineBuffer, type LineSink } from './line-buffer.ts'
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
}>

/** The log of a process, which can also say that it ends, and what is of interest only while one looks for something. */
export type ProcessLog = Log &
  Readonly<Record<'debug' | 'fatal', (fields: LogFields, message: string) => void>> &
  Readonly<{
    /** Writes what is held, for at most so long; lines that come later are dropped. */
    close: (withinMs: number) => Promise<void>
  }>

export type LogFields = Readonly<Record<string, unknown>>

/** As much as is written at once where nothing can come between: nobody else writes, or each write is one, as to files. */
const writtenBytes = 65_536

/** For how long the line of a request may wait for others. */
const delayMs = 100

/** A line this soon after another that left at once waits like the line of a request. */
const floodMs = 20

/** How long standard output is left alone that failed. */
const retryMs = 1_000

const defaultBufferBytes = 4 * 1024 * 1024

export type LogOptions = Readonly<{
  /** Written on every line of a process that is one of several. */
  worker?: number | undefined
  /** Whether others write to the output as well. */
  isShared?: boolean
  format?: LogFormat
  /** What may wait in memory for a slow reader; lines beyond it are dropped. */
  bufferBytes?: number
  metrics?: LogMetrics
}>

const noMetrics: LogMetrics = { countDroppedLogLines: () => undefined, watchLogSink: () => undefined }

/**
 * One JSON object a line on standard output, times in RFC 3339. Whatever becomes of standard output, a caller neither
 * waits nor fails: lines that find no room are dropped and counted, and one line tells how many once there is room.
 */
export function createLog(level: LogLevel, options: LogOptions = {}): ProcessLog {
  const { worker, isShared = worker !== undefined, format = 'json' } = options
  const { bufferBytes = defaultBufferBytes, metrics = noMetrics } = options
  const reports: OutputReports = {
    onDropped: (dropped) => logger.error({ dropped }, 'log lines were dropped'),
    onFailing: (error) => logger.error({ error: describeError(error) }, 'the log cannot be written'),
    onRecovered: () => logger.info({}, 'the log is written again'),
  }
  const writeLimitBytes = isShared && !isFile(1) ? atomicBytes : writtenBytes
  // Before it is opened: without a line there is nothing to write to.
  const output = level === 'silent' ? undefined : openOutput(writeLimitBytes, bufferBytes, metrics, reports)
  const isPretty = format === 'pretty' || (format === 'auto' && isatty(1))
  const sink = isPretty && output ? prettify(output.sink, isatty(1) && !process.env.NO_COLOR) : output?.sink
  const lines = bufferLines(sink ?? noSink, Math.min(output?.writeLimitBytes ?? 0, bufferBytes / 4), delayMs)
  const base = worker !== undefined ? { worker } : null
  const logger = pino({ level, base, timestamp: pino.stdTimeFunctions.isoTime, formatters }, flushAtOnce(lines))
  const start = worker !== undefined ? `"worker":${worker},` : ''
  return {
    request: logger.isLevelEnabled('info')
      ? (fields) => lines.write(composeRequestLine(start, fields))
      : () => undefined,
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.warn(fields, message),
    error: (fields, message) => logger.error(fields, message),
    fatal: (fields, message) => {
      logger.fatal(fields, message)
      lines.flush()
    },
    close: async (withinMs) => {
      lines.flush()
      await output?.writer.close(withinMs)
    },
  }
}

/** What is rare leaves at once, behind what was said before it; a flood of it leaves together. */
function flushAtOnce(lines: LineBuffer) {
  let flushedAtMs = Number.NEGATIVE_INFINITY
  return {
    write: (line: string): void => {
      lines.write(line)
      const nowMs = performance.now()
      if (nowMs - flushedAtMs < floodMs) return
      flushedAtMs = nowMs
      lines.flush()
    },
  }
}

/** Lines about the output itself. */
type OutputReports = Readonly<{
  onDropped: (lines: number) => void
  onFailing: (error: unknown) => void
  onRecovered: () => void
}>

type Output = Readonly<{ writer: LineWriter; sink: LineSink; writeLimitBytes: number }>

/** Standard output, which never keeps a caller waiting. */
function openOutput(writeLimitBytes: number, bufferBytes: number, metrics: LogMetrics, reports: OutputReports): Output {
  let untold = 0
  const writer = new LineWriter({
    place: openStream(1, writeLimitBytes),
    bufferBytes,
    monotonicMs: () => performance.now(),
    retryMs,
    // A standard stream is never opened anew.
    followMs: Number.POSITIVE_INFINITY,
    onWritten: () => {
      // With room to spare, or the line about losses would be the next one that is lost.
      if (untold === 0 || writer.heldBytes > bufferBytes / 2) return
      const dropped = untold
      untold = 0
      reports.onDropped(dropped)
    },
    onLost: (count) => {
      untold += count
      metrics.countDroppedLogLines(count)
    },
    onFailing: reports.onFailing,
    onRecovered: reports.onRecovered,
  })
  metrics.watchLogSink(() => !writer.isFailing)
  const sink: LineSink = {
    // A character for each byte, and in one piece: the joined lines' many small parts take several times the room.
    write: (text, count) => writer.push(Buffer.from(text).toString('latin1'), undefined, count),
  }
  return { writer, sink, writeLimitBytes }
}

const noSink: LineSink = { write: () => undefined }

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
