import type { HistoryReading } from '../gateway/listeners/admin/history/history.ts'
import type { RingReading, SlotRange } from '../gateway/listeners/admin/history/slot-ring.ts'
import {
  causeColumns,
  columns,
  type NamedRing,
  nameCode,
  type TrafficReading,
} from '../gateway/listeners/admin/history/traffic.ts'
import { amount, formatMs, percent } from './format.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'
import { type Curve, renderPlot, renderSparkline } from './plot.ts'
import { type ConsoleQuery, linkTo, slotsPerPoint, toHistoryQuery } from './query.ts'
import { readTrend } from './trends.ts'

export function renderRange(query: ConsoleQuery, { traffic }: HistoryReading): Html {
  const links = [...slotsPerPoint.keys()].map((minutes) => {
    const isChosen = minutes === query.minutes
    const name = minutes === 60 ? '1 hour' : `${minutes} min`
    return html`<li><a href="${linkTo(query, { range: String(minutes) }, 'traffic')}"${isChosen ? html` aria-current="true"` : undefined}>${name}</a></li>`
  })
  return html`<div class="controls"><nav aria-label="Time range"><ul class="ranges">${links}</ul></nav>
<form action="/#traffic" method="get" class="search"><input type="hidden" name="range" value="${String(query.minutes)}">
${renderChoice('route', 'Route', namesOf(traffic.routes), query.route)}${renderChoice('upstream', 'Upstream', namesOf(traffic.upstreams), query.upstream)}<button>Show</button></form></div>
`
}

const namesOf = (rings: readonly NamedRing[]): readonly string[] => rings.map(({ name }) => name).sort()

export const renderChoice = (name: string, label: string, options: readonly string[], chosen: string): Html =>
  html`<label>${label} <select name="${name}"><option value="">all</option>${[
    ...new Set(chosen === '' ? options : [...options, chosen]),
  ].map(
    (option) => html`<option value="${option}"${option === chosen ? html` selected` : undefined}>${option}</option>`,
  )}</select></label>
`

const mostCurves = 6

export function renderPlots(query: ConsoleQuery, { traffic }: HistoryReading, now: Date): Html {
  const range = toHistoryQuery(query, now)
  const subject = chooseSubject(query, traffic)
  const trend = readTrend(subject.ring, range, now)
  const [from, to] = [formatClock(now.getTime() - query.minutes * 60_000), formatClock(now.getTime())]
  const seconds = (column: number): readonly number[] => trend.perSecond(column)
  const isWhole = subject.name === 'all requests'
  const refusals: readonly Curve[] = isWhole
    ? curvesOf(traffic.causes, causeColumns.refused, range, now)
    : [{ name: 'refused', values: seconds(columns.refused) }]
  const failures: readonly Curve[] = isWhole
    ? curvesOf(traffic.causes, causeColumns.failed, range, now)
    : [{ name: 'failed', values: seconds(columns.failed) }]
  const latencies = [0.5, 0.9, 0.99].map((part) => ({ name: `p${part * 100}`, values: trend.percentiles(part) }))
  const shared = { from, to }
  return html`<div id="plots" data-live class="plots">
${renderPlot({ ...shared, id: 'rate', title: `Requests: ${subject.name}`, unit: '/s', curves: [{ name: 'requests', values: seconds(columns.requests) }] })}${
  query.upstream !== '' && query.route === ''
    ? undefined
    : renderPlot({
        ...shared,
        id: 'refused',
        title: isWhole ? 'Refusals by cause' : 'Refusals',
        unit: '/s',
        curves: refusals,
        isStacked: true,
      })
}${renderPlot({ ...shared, id: 'failed', title: isWhole ? 'Failures by cause' : 'Failures', unit: '/s', curves: failures, isStacked: true })}${renderPlot({ ...shared, id: 'latency', title: 'Time to the first byte', unit: 'ms', curves: latencies })}</div>
`
}

function chooseSubject({ route, upstream }: ConsoleQuery, traffic: TrafficReading) {
  const empty: RingReading = { rows: [], recent: [], before: [] }
  const find = (rings: readonly NamedRing[], name: string): RingReading =>
    rings.find((ring) => ring.name === name) ?? empty
  if (route !== '') return { name: `route ${route}`, ring: find(traffic.routes, route) }
  if (upstream !== '') return { name: `upstream ${upstream}`, ring: find(traffic.upstreams, upstream) }
  return { name: 'all requests', ring: traffic.total }
}

function curvesOf(rings: readonly NamedRing[], column: number, range: SlotRange, now: Date): readonly Curve[] {
  const sorted = rings
    .map((ring) => ({ name: ring.name, trend: readTrend(ring, range, now) }))
    .filter(({ trend }) => trend.sum(column) > 0)
    .sort((one, other) => other.trend.sum(column) - one.trend.sum(column))
    .map(({ name, trend }) => ({ name, values: trend.perSecond(column) }))
  if (sorted.length <= mostCurves) return sorted
  // The smallest are added up as one curve, so that the stack still reaches the sum.
  const rest = sorted.slice(mostCurves - 1)
  const values = (rest[0]?.values ?? []).map((_, at) => rest.reduce((sum, curve) => sum + (curve.values[at] ?? 0), 0))
  return [...sorted.slice(0, mostCurves - 1), { name: 'others', values }]
}

const formatClock = (ms: number): string => new Date(ms).toISOString().slice(11, 16)

export function renderRoutes(query: ConsoleQuery, { traffic }: HistoryReading, now: Date): Html {
  const range = toHistoryQuery(query, now)
  const rows = traffic.routes
    .map((ring) => ({ name: ring.name, trend: readTrend(ring, range, now) }))
    .filter(({ trend }) => trend.sum(columns.requests) > 0)
    .sort(
      (one, other) =>
        other.trend.sum(columns.failed) - one.trend.sum(columns.failed) ||
        other.trend.sum(columns.requests) - one.trend.sum(columns.requests),
    )
  return renderLiveTable({
    id: 'routes',
    caption: 'Routes',
    heads: ['Route', 'Rate', ...['Requests', 'Refused', '5xx', 'Share', 'p50', 'p99'].map((number) => ({ number }))],
    rows: rows.map(({ name, trend }) => {
      const [requests, failed] = [trend.sum(columns.requests), trend.sum(columns.failed)]
      return html`<tr><th scope="row"><a href="${linkTo(query, { route: name }, 'traffic')}">${name}</a></th><td>${renderSparkline(trend.perSecond(columns.requests))}</td><td class="number">${amount(requests)}</td><td class="number">${amount(trend.sum(columns.refused))}</td><td class="number${failed > 0 ? ' alarming' : ''}">${amount(failed)}</td><td class="number">${percent(failed, requests)}</td><td class="number">${formatMs(trend.percentile(0.5))}</td><td class="number">${formatMs(trend.percentile(0.99))}</td></tr>`
    }),
    empty: 'No request in this range.',
    isLarge: true,
  })
}

const mostRows = 10

export function renderCauses(query: ConsoleQuery, { traffic }: HistoryReading, now: Date): Html {
  const range = toHistoryQuery(query, now)
  const rows = traffic.causes
    .map((ring) => ({ name: ring.name, trend: readTrend(ring, range, now) }))
    .map(({ name, trend }) => ({
      name,
      refused: trend.sum(causeColumns.refused),
      failed: trend.sum(causeColumns.failed),
    }))
    .filter(({ refused, failed }) => refused + failed > 0)
    .sort((one, other) => other.refused + other.failed - one.refused - one.failed)
    .slice(0, mostRows)
  return renderLiveTable({
    id: 'causes',
    caption: 'Top causes',
    heads: ['Cause', 'Code', { number: 'Refused' }, { number: 'Failed' }],
    rows: rows.map(
      ({ name, refused, failed }) =>
        html`<tr><th scope="row"><a href="${linkTo(query, { reason: name }, 'requests')}"><code>${name}</code></a></th><td><code>${nameCode(name)}</code></td><td class="number">${amount(refused)}</td><td class="number${failed > 0 ? ' alarming' : ''}">${amount(failed)}</td></tr>`,
    ),
    empty: 'Nothing was refused, and nothing failed.',
  })
}

export function renderCallers(query: ConsoleQuery, { callers }: HistoryReading): Html {
  const rows = [...callers]
    .sort((one, other) => other.refused + other.failed - one.refused - one.failed || other.requests - one.requests)
    .slice(0, mostRows)
  return renderLiveTable({
    id: 'callers',
    caption: 'Top callers',
    heads: ['Caller', { number: 'Requests' }, { number: 'Refused' }, { number: 'Failed' }],
    rows: rows.map(({ caller, requests, refused, failed }) => {
      const find = typeof caller === 'number' ? `user:${caller}` : caller
      const name = typeof caller === 'number' ? html`user ${caller}` : html`<code>${caller}</code>`
      return html`<tr><th scope="row"><a href="${linkTo(query, { find }, 'requests')}">${name}</a></th><td class="number">${amount(requests)}</td><td class="number">${amount(refused)}</td><td class="number">${amount(failed)}</td></tr>`
    }),
    empty: 'No request in this range.',
  })
}
