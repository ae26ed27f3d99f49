// The audit: a line for each decision, written whole and in order, and counted if it is lost.
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { guarded } from '../../base/fault/guarded.ts'
import type { MalformedRequest } from '../../http/engine.ts'
import { describeError, type Log } from '../log/log.ts'
import type { EndedRequest } from '../request-record.ts'
import type { AuditMetrics } from './audit-metrics.ts'
import type { Line } from './batch.ts'
import {
  type AuditedDecision,
  type AuditedEnd,
  type AuditedFailure,
  type AuditedListener,
  composeAuditLine,
  composeEndLine,
  composeFailureLine,
} from './line.ts'
import { LineWriter } from './line-writer.ts'
import type { Sink } from './sink.ts'

export type AuditSettings = Readonly<{
  /** `drop` never delays a request and may lose lines. `wait` holds each decision until its line is written. */
  onFull: 'drop' | 'wait'
  bufferBytes: number
  waitMs: number
  replica: string
}>

export type Audit = Readonly<{
  isOn: boolean
  /** With `wait` it resolves once the line is written, or rejects with a refusal. */
  record: (decision: AuditedDecision) => Promise<void> | undefined
  recordEnd: (end: AuditedEnd) => void
  recordFailure: (failure: AuditedFailure) => void
  close: (withinMs: number) => Promise<void>
}>

type AuditDependencies = Readonly<{
  log: Log
  metrics: AuditMetrics
  monotonicMs: () => number
}>

/** Once a second (docs/reference/audit.md): a look costs one call, and a rotated file loses no more than a second. */
const retryMs = 1_000
const followMs = 1_000

/** Thousands of lines a second may be lost; the metric counts them as they go. */
const complainEveryMs = 10_000

export const noAudit: Audit = {
  isOn: false,
  record: () => undefined,
  recordEnd: () => undefined,
  recordFailure: () => undefined,
  close: async () => undefined,
}

export function createAudit(place: Sink, settings: AuditSettings, dependencies: AuditDependencies): Audit {
  const { log, metrics, monotonicMs } = dependencies
  const { bufferBytes, waitMs, replica } = settings
  const losses = reportLosses(log, monotonicMs)
  const writer = new LineWriter({
    place,
    bufferBytes,
    monotonicMs,
    retryMs,
    followMs,
    onWritten: (lines) => metrics.countAudit('written', lines),
    onLost: (lines) => {
      metrics.countAudit('dropped', lines)
      losses.note(lines)
    },
    onFailing: (error) => log.error({ error: describeError(error) }, 'audit not written'),
    onRecovered: () => {
      losses.report()
      log.info({}, 'audit written again')
    },
  })
  metrics.watchAuditSink(() => !writer.isFailing)

  const waitFor = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const refuse = (): void => reject(new GatewayError('audit_unavailable'))
      const settle = (isWritten: boolean): void => {
        clearTimeout(timer)
        if (isWritten) resolve()
        else refuse()
      }
      let line: Line | undefined
      const giveUp = (): void => {
        refuse()
        if (line) writer.giveUp(line)
      }
      const timer = setTimeout(guarded('process', giveUp), waitMs)
      line = writer.push(text, settle)
      if (!line) settle(false)
    })

  return {
    isOn: true,
    record: (decision) => {
      const text = composeAuditLine(decision, replica)
      if (settings.onFull === 'wait') return waitFor(text)
      writer.push(text)
      return undefined
    },
    recordEnd: (end) => void writer.push(composeEndLine(end, replica)),
    recordFailure: (failure) => void writer.push(composeFailureLine(failure, replica)),
    close: async (withinMs) => {
      await writer.close(withinMs)
      losses.report()
    },
  }
}

/** Logs the first loss at once, and the following ones together. */
function reportLosses(log: Log, monotonicMs: () => number) {
  let unreported = 0
  let reportedAtMs = Number.NEGATIVE_INFINITY
  const report = (): void => {
    if (unreported === 0) return
    log.error({ dropped: unreported }, 'audit lines dropped')
    unreported = 0
    reportedAtMs = monotonicMs()
  }
  return {
    report,
    note: (lines: number): void => {
      unreported += lines
      if (monotonicMs() - reportedAtMs >= complainEveryMs) report()
    },
  }
}

/** Records requests that could not be parsed; a request with a malformed body has a record already. */
export const createMalformedRecorder =
  (audit: Audit, listener: AuditedListener, now: () => Date) =>
  ({ code, requestId, peerAddress, isBody }: MalformedRequest): void => {
    if (isBody) return
    const error = new GatewayError(code)
    const recorded = audit.record({
      time: now(),
      requestId,
      listener,
      outcome: 'refused',
      status: error.status,
      error,
      principal: undefined,
      organization: undefined,
      route: undefined,
      method: undefined,
      path: undefined,
      clientAddress: peerAddress,
    })
    // The request is refused in any case; a lost line is counted.
    recorded?.catch(() => undefined)
  }

export const createFailureRecorder =
  (audit: Audit, now: () => Date) =>
  ({ exchange, requestId, listener, facts, decision: refused, durationMs }: EndedRequest): void => {
    const { error, reason, clientAddress, userId, credential, organizationId, route, upstream, method, path } = facts
    const isFailure = error && reason === 'allowed' && !refused && error.code !== 'audit_unavailable'
    if (!isFailure || !audit.isOn) return
    audit.recordFailure({
      time: now(),
      ...{ requestId, listener, userId, credential, organizationId, route, upstream, path },
      status: error.status,
      reason: error.code,
      cause: error.exactCause,
      method: method ?? exchange.method,
      clientAddress: clientAddress ?? exchange.peerAddress,
      durationMs: Math.round(durationMs),
    })
  }
