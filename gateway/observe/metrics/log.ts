import { Counter, Gauge, type Registry } from 'prom-client'

export type LogMetrics = Readonly<{
  countDroppedLogLines: (lines: number) => void
  watchLogSink: (isUp: () => boolean) => void
}>

export function createLogMetrics(registers: Registry[]): LogMetrics {
  const dropped = new Counter({
    name: 'sallyport_log_lines_dropped_total',
    help: 'Lines of the log that found no room in memory, because standard output was slow, full or gone.',
    registers,
  })
  let read = () => true
  new Gauge({
    name: 'sallyport_log_sink_up',
    help: 'Whether the log could be written to standard output the last time.',
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
