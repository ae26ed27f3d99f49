import type { Meter } from './meter.ts'

export type LogMetrics = Readonly<{
  countDroppedLogLines: (lines: number) => void
  watchLogSink: (isUp: () => boolean) => void
}>

export function createLogMetrics({ counter, watchFlag }: Meter): LogMetrics {
  const dropped = counter(
    'sallyport_log_lines_dropped_total',
    'Log lines dropped because standard output was slow, full or closed.',
  )()
  return {
    countDroppedLogLines: (lines) => {
      dropped.count += lines
    },
    watchLogSink: watchFlag('sallyport_log_sink_up', 'Whether the last write of the log succeeded.', true),
  }
}
