import { Counter, Gauge, type Registry } from 'prom-client'

/** Whether every decision has its line. */
export type AuditMetrics = Readonly<{
  countAudit: (outcome: 'written' | 'dropped', lines: number) => void
  /** Calls back at each scrape. */
  watchAuditSink: (isUp: () => boolean) => void
}>

/** A sink that nobody watches is up: nothing is to be written. */
export function createAuditMetrics(registers: Registry[]): AuditMetrics {
  const written = new Counter({
    name: 'sallyport_audit_written_total',
    help: 'Lines of the audit that were written.',
    registers,
  })
  const dropped = new Counter({
    name: 'sallyport_audit_dropped_total',
    help: 'Decisions that have no line in the audit, because it could not be written in time.',
    registers,
  })
  let read = () => true
  new Gauge({
    name: 'sallyport_audit_sink_up',
    help: 'Whether the audit could be written the last time.',
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
