import { lagEveryMs } from '../../observe/metrics/process.ts'
import { amount, duration, percent } from './format.ts'
import { type Html, html } from './html.ts'
import type { MetricsReader } from './metrics-reader.ts'
import type { Rates } from './rates.ts'

/** The totals that rates are taken of. */
export const countTotals = (figures: MetricsReader): Readonly<Record<string, number>> => ({
  requests: figures.sum('sallyport_requests_total'),
  refused: countRefused(figures),
  failed: figures.sum('sallyport_requests_total', isServerError),
})

export const isServerError = ({ status = '' }: Readonly<Record<string, string>>): boolean => /^5\d\d$/.test(status)

const countRefused = (figures: MetricsReader): number =>
  figures.sum('sallyport_decisions_total', ({ reason }) => reason !== 'allowed' && reason !== 'abandoned') +
  figures.sum('sallyport_malformed_requests_total')

/** The numbers that move. */
export function renderOverview(figures: MetricsReader, rates: Rates, now: Date): Html {
  const { requests = 0, refused = 0, failed = 0 } = countTotals(figures)
  const failedStreams = figures.sum('sallyport_streams_failed_total')
  const dropped = figures.sum('sallyport_connections_dropped_total')
  const rate = rates.perSecond('requests')
  const startedAt = figures.one('process_start_time_seconds')
  const workers = figures.one('sallyport_workers')
  const facts = [
    startedAt === undefined ? [] : [`up ${duration(now.getTime() / 1_000 - startedAt)}`],
    workers === undefined ? [] : [`${workers} workers`, `${figures.sum('sallyport_worker_restarts_total')} restarts`],
    [`${amount((figures.one('process_resident_memory_bytes') ?? 0) / 1_048_576)} MiB of memory`],
    [`event loop ${amount(readLagMs(figures))} ms behind at p99`],
  ].flat()
  return html`<dl class="tiles" id="tiles" data-live>
${tile('Requests a second', rate === undefined ? '–' : rate.toFixed(1), rate === undefined ? 'from the second look on' : 'over the last 10 s', drawLine(rates.history('requests')))}
${tile('Requests', amount(requests), `${amount(figures.sum('sallyport_requests_in_flight'))} in flight`)}
${tile('Refused', amount(refused), `${percent(refused, requests)} of the requests`)}
${tile('5xx answers', amount(failed), `${percent(failed, requests)} of the requests`, undefined, rates.growth('failed') > 0)}
${tile('Open streams', amount(figures.sum('sallyport_streams_open')), `${amount(failedStreams)} failed so far`)}
${tile('Open WebSockets', amount(figures.sum('sallyport_websockets_open')), `${amount(dropped)} connections dropped`)}
</dl>
<p class="quiet" id="facts" data-live>${facts.join(' · ')}</p>
`
}

const tile = (name: string, value: string, more: string, drawing?: Html, isBad = false): Html =>
  html`<div class="tile${isBad ? ' alarming' : ''}"><dt>${name}</dt><dd class="value">${value}</dd><dd class="quiet">${more}${drawing}</dd></div>`

const width = 120
const height = 28

/** The numbers beside it say the same to whoever cannot see it. */
function drawLine(values: readonly number[]): Html | undefined {
  if (values.length < 2) return undefined
  const highest = Math.max(...values, 1)
  const points = values.map((value, index) => {
    const x = (index / (values.length - 1)) * width
    return `${x.toFixed(1)},${(height - 2 - (value / highest) * (height - 4)).toFixed(1)}`
  })
  return html`<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true"><polyline points="${points.join(' ')}"/></svg>`
}

/** Of what is told, which begins with the pause between two looks. */
const readLagMs = (figures: MetricsReader): number =>
  Math.max(0, (figures.one('nodejs_eventloop_lag_p99_seconds') ?? 0) * 1_000 - lagEveryMs)
