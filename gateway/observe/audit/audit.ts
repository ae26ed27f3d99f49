import { GatewayError } from '../../errors/gateway-error.ts'
import { guarded } from '../../fault/guarded.ts'
import type { MalformedRequest } from '../../http/engine.ts'
import { describeError, type Log } from '../log/log.ts'
import type { AuditMetrics } from './audit-metrics.ts'
import type { Line } from './batch.ts'
import { type AuditedDecision, type AuditedListener, composeAuditLine } from './line.ts'
import { LineWriter } from './line-writer.ts'
import type { Sink } from './sink.ts'

export type AuditSettings = Readonly<{
  /** `drop`: nobody waits, and lines may be lost. `wait`: nothing is done whose line is not written. */
  onFull: 'drop' | 'wait'
  bufferBytes: number
  /** With `wait`: how long a decision is held for its line. */
  waitMs: number
  /** Who says so: this process, among all that write. */
  replica: string
}>

export type Audit = Readonly<{
  /** Whether it writes decisions down at all; refusals are told to it either way. */
  isOn: boolean
  /** Writes a decision down. With `wait` it resolves once the line is written, and else rejects with a refusal. */
  record: (decision: AuditedDecision) => Promise<void> | undefined
  /** Writes what is held, for at most so long. */
  close: (withinMs: number) => Promise<void>
}>

type AuditDependencies = Readonly<{
  log: Log
  metrics: AuditMetrics
  monotonicMs: () => number
}>

const retryMs = 1_000
const followMs = 1_000

/** One line of the log in so long says how many lines of the audit are missing. */
const complaintMs = 10_000

/** The audit that is switched off. */
export const noAudit: Audit = { isOn: false, record: () => undefined, close: async () => undefined }

/** One line for each decision, beside the request's way. */
export function createAudit(place: Sink, settings: AuditSettings, dependencies: AuditDependencies): Audit {
  const { log, metrics, monotonicMs } = dependencies
  const { bufferBytes, waitMs, replica } = settings
  const losses = tellLosses(log, monotonicMs)
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
    onFailing: (error) => log.error({ error: describeError(error) }, 'the audit cannot be written'),
    onRecovered: () => {
      losses.tell()
      log.info({}, 'the audit is written again')
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
    close: async (withinMs) => {
      await writer.close(withinMs)
      losses.tell()
    },
  }
}

/** Tells of the first loss at once, and of those that follow together. */
function tellLosses(log: Log, monotonicMs: () => number) {
  let untold = 0
  let toldAtMs = Number.NEGATIVE_INFINITY
  const tell = (): void => {
    if (untold === 0) return
    log.error({ dropped: untold }, 'audit lines were dropped')
    untold = 0
    toldAtMs = monotonicMs()
  }
  return {
    tell,
    note: (lines: number): void => {
      untold += lines
      if (monotonicMs() - toldAtMs >= complaintMs) tell()
    },
  }
}

/** Writes down what was refused before it could be read; of a request that was read there is a line already. */
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
    // Refused it is, written down or not; a line that is lost is counted.
    recorded?.catch(() => undefined)
  }
