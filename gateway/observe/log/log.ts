// The log of the process: lines of JSON on standard output, without secrets, and never in a request's way.
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

export type LogFormat = 'auto' | 'json' | 'pretty'

export type Log = Readonly<{
  /** The line of a request may wait up to `delayMs`, since thousands a second are written together. */
  request: (fields: LogFields) => void
  info: (fields: LogFields, message: string) => void
  warn: (fields: LogFields, message: string) => void
  error: (fields: LogFields, message: string) => void
}>

export type ProcessLog = Log &
  Readonly<Record<'debug' | 'fatal', (fields: LogFields, message: string) => void>> &
  Readonly<{
    close: (withinMs: number) => Promise<void>
  }>

export type LogFields = Readonly<Record<string, unknown>>

/** Largest write when lines cannot be mixed: the gateway is the only writer, or the output is a file. */
const writtenBytes = 65_536

/** A person who follows the log notices no such delay, and hundreds of lines share a write. */
const delayMs = 100

/** A flood makes at most 50 writes a second; a rare line leaves at once. */
const floodMs = 20

/** A full disk takes longer to recover, and one attempt in a second costs nothing. */
const retryMs = 1_000

/** The default of `log.bufferBytes`, for processes without a configuration. About 10,000 lines of requests. */
const defaultBufferBytes = 4 * 1024 * 1024

export type LogOptions = Readonly<{
  worker?: number | undefined
  isShared?: boolean
  format?: LogFormat
  bufferBytes?: number
  metrics?: LogMetrics
}>

const noMetrics: LogMetrics = { countDroppedLogLines: () => undefined, watchLogSink: () => undefined }

/**
 * One JSON object a line on standard output, times in RFC 3339. A caller neither waits nor fails, even if the output
 * does. Lines without room are dropped and counted, and a later line reports how many.
 */
export function createLog(level: LogLevel, options: LogOptions = {}): ProcessLog {
  const { worker, isShared = worker !== undefined, format = 'json' } = options
  const { bufferBytes = defaultBufferBytes, metrics = noMetrics } = options
  const reports: OutputReports = {
    onDropped: (dropped) => logger.error({ dropped }, 'log lines dropped'),
    onFailing: (error) => logger.error({ error: describeError(error) }, 'log not written'),
    onRecovered: () => logger.info({}, 'log written again'),
  }
  const writeLimitBytes = isShared && !isFile(1) ? atomicBytes : writtenBytes
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

/** Rare lines leave at once, after the held ones; a flood leaves together. */
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

type OutputReports = Readonly<{
  onDropped: (lines: number) => void
  onFailing: (error: unknown) => void
  onRecovered: () => void
}>

type Output = Readonly<{ writer: LineWriter; sink: LineSink; writeLimitBytes: number }>

function openOutput(writeLimitBytes: number, bufferBytes: number, metrics: LogMetrics, reports: OutputReports): Output {
  let untold = 0
  const writer = new LineWriter({
    place: openStream(1, writeLimitBytes),
    bufferBytes,
    monotonicMs: () => performance.now(),
    retryMs,
    followMs: Number.POSITIVE_INFINITY,
    onWritten: () => {
      // With room to spare, or the line about losses would be lost next.
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
    // Latin-1 keeps a byte a character. The copy is one string: the joined lines would take several times the memory.
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

/** The same form as pino's, but faster: every request pays for it. */
const composeRequestLine = (start: string, fields: LogFields): string =>
  `{"level":"info","time":"${currentTime()}",${start}${JSON.stringify(fields).slice(1, -1)},"msg":"request"}\n`

let timeMs = 0
let timeText = ''

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
 * Only names, codes and messages along the chain of causes. Libraries attach inputs, queries and connection options to
 * their errors.
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

export const describeBug = (error: unknown): LogFields => ({
  ...describeError(error),
  ...(error instanceof Error && { stack: redact(String(error.stack).split('\n').slice(1, 12).join('\n')) }),
})
