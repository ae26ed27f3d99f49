import type { HistoryReading } from '../gateway/listeners/admin/history/history.ts'
import { columns } from '../gateway/listeners/admin/history/traffic.ts'
import { lagEveryMs } from '../gateway/observe/metrics/process.ts'
import { amount, duration, percent } from './format.ts'
import { type Html, html } from './html.ts'
import type { MetricsReader } from './metrics-reader.ts'
import { renderSparkline } from './plot.ts'
import { type ConsoleQuery, toHistoryQuery } from './query.ts'
import { readRecentRate, readTrend } from './trends.ts'

const isServerError = ({ status = '' }: Readonly<Record<string, string>>): boolean => /^5\d\d$/.test(status)

const countRefused = (figures: MetricsReader): number =>
  figures.sum('sallyport_decisions_total', ({ reason }) => reason !== 'allowed' && reason !== 'abandoned') +
  figures.sum('sallyport_malformed_requests_total')

export function renderOverview(
  figures: MetricsReader,
  { traffic }: HistoryReading,
  query: ConsoleQuery,
  now: Date,
): Html {
  const requests = figures.sum('sallyport_requests_total')
  const refused = countRefused(figures)
  const failed = figures.sum('sallyport_requests_total', isServerError)
  const failedStreams = figures.sum('sallyport_streams_failed_total')
  const dropped = figures.sum('sallyport_connections_dropped_total')
  const curve = readTrend(traffic.total, toHistoryQuery(query, now), now).perSecond(columns.requests)
  const isFailing = (traffic.total.recent[columns.failed] ?? 0) > 0
  const startedAt = figures.one('process_start_time_seconds')
  const workers = figures.one('sallyport_workers')
  const facts = [
    startedAt === undefined ? [] : [`up ${duration(now.getTime() / 1_000 - startedAt)}`],
    workers === undefined ? [] : [`${workers} workers`, `${figures.sum('sallyport_worker_restarts_total')} restarts`],
    [`${amount((figures.one('process_resident_memory_bytes') ?? 0) / 1_048_576)} MiB of memory`],
    [`event loop ${amount(readEventLoopLagMs(figures))} ms behind at p99`],
  ].flat()
  return html`<dl class="tiles" id="tiles" data-live>
${tile('Requests a second', readRecentRate(traffic.total, now).toFixed(1), 'over the last minute', renderSparkline(curve))}
${tile('Requests', amount(requests), `${amount(figures.sum('sallyport_requests_in_flight'))} in flight`)}
${tile('Refused', amount(refused), `${percent(refused, requests)} of the requests`)}
${tile('5xx answers', amount(failed), `${percent(failed, requests)} of the requests`, undefined, isFailing)}
${tile('Open streams', amount(figures.sum('sallyport_streams_open')), `${amount(failedStreams)} failed so far`)}
${tile('Open WebSockets', amount(figures.sum('sallyport_websockets_open')), `${amount(dropped)} connections dropped`)}
</dl>
<p class="quiet" id="facts" data-live>${facts.join(' · ')}</p>
`
}

const tile = (name: string, value: string, more: string, drawing?: Html, isBad = false): Html =>
  html`<div class="tile${isBad ? ' alarming' : ''}"><dt>${name}</dt><dd class="value">${value}</dd><dd class="quiet">${more}${drawing}</dd></div>`

/** The metric measures the time between samples, so the sampling interval is subtracted. */
export const readEventLoopLagMs = (figures: MetricsReader): number =>
  Math.max(0, (figures.one('nodejs_eventloop_lag_p99_seconds') ?? 0) * 1_000 - lagEveryMs)
