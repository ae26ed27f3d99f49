import { Counter, Gauge, type Registry } from 'prom-client'

export type LogMetrics = Readonly<{
  countDroppedLogLines: (lines: number) => void
  watchLogSink: (isUp: () => boolean) => void
}>

export function createLogMetrics(registers: Registry[]): LogMetrics {
  const dropped = new Counter({
    name: 'sallyport_log_lines_dropped_total',
    help: 'Log lines dropped because standard output was slow, full or closed.',
    registers,
  })
  let read = () => true
  new Gauge({
    name: 'sallyport_log_sink_up',
    help: 'Whether the last write of the log succeeded.',
    registers,
    collect() {
      this.set(read() ? 1 : 0)
    },
  })
  return {
    countDroppedLogLines: (lines) => dropped.inc(lines),
    watchLogSink: (isUp) => {
      read = isUp
    },
  }
}
