import type { Meter } from '../metrics/meter.ts'

export type AuditMetrics = Readonly<{
  countAudit: (outcome: 'written' | 'dropped', lines: number) => void
  watchAuditSink: (isUp: () => boolean) => void
}>

export function createAuditMetrics({ counter, watchFlag }: Meter): AuditMetrics {
  const lines = {
    written: counter('sallyport_audit_written_total', 'Audit lines written.')(),
    dropped: counter(
      'sallyport_audit_dropped_total',
      'Audit lines dropped because they could not be written in time.',
    )(),
  }
  return {
    countAudit: (outcome, count) => {
      lines[outcome].count += count
    },
    watchAuditSink: watchFlag('sallyport_audit_sink_up', 'Whether the last write of the audit succeeded.', true),
  }
}
