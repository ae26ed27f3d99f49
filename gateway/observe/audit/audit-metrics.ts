import { Counter, Gauge, type Registry } from 'prom-client'

export type AuditMetrics = Readonly<{
  countAudit: (outcome: 'written' | 'dropped', lines: number) => void
  watchAuditSink: (isUp: () => boolean) => void
}>

export function createAuditMetrics(registers: Registry[]): AuditMetrics {
  const written = new Counter({
    name: 'sallyport_audit_written_total',
    help: 'Audit lines written.',
    registers,
  })
  const dropped = new Counter({
    name: 'sallyport_audit_dropped_total',
    help: 'Audit lines dropped because they could not be written in time.',
    registers,
  })
  let read = () => true
  new Gauge({
    name: 'sallyport_audit_sink_up',
    help: 'Whether the last write of the audit succeeded.',
    registers,
    collect() {
      this.set(read() ? 1 : 0)
    },
  })
  return {
    countAudit: (outcome, lines) => (outcome === 'written' ? written : dropped).inc(lines),
    watchAuditSink: (isUp) => {
      read = isUp
    },
  }
}
