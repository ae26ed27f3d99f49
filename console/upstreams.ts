import type { ClusterStates } from '../gateway/listeners/admin/cluster-state.ts'
import type { HistoryReading } from '../gateway/listeners/admin/history/history.ts'
import { columns, type NamedUpstream } from '../gateway/listeners/admin/history/traffic.ts'
import { amount, duration, formatMs, percent, state } from './format.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'
import { type ConsoleQuery, linkTo, toHistoryQuery } from './query.ts'
import { readTrend } from './trends.ts'

export type UpstreamAddress = Readonly<{ name: string; origin: string }>

export type UpstreamHealth = UpstreamAddress &
  Readonly<{
    label: string
    calls: NamedUpstream
    isGood: boolean | undefined
    word: string
  }>

export const failingShare = 0.01

export const silenceMs = 10_000
export const leastWaiting = 4

export function judgeUpstreams(
  upstreams: readonly UpstreamAddress[],
  { traffic }: HistoryReading,
  clusters: ClusterStates | undefined,
  now: Date,
): readonly UpstreamHealth[] {
  const none = { rows: [], recent: [], before: [], waiting: 0, settledMs: 0 }
  const configured = upstreams.map((upstream) => {
    const calls = traffic.upstreams.find(({ name }) => name === upstream.name) ?? { ...none, name: upstream.name }
    return { ...upstream, label: upstream.name, calls }
  })
  const others = traffic.upstreams
    .filter(({ name }) => !upstreams.some((upstream) => upstream.name === name))
    .map((calls) => ({ name: calls.name, calls, ...describeCluster(calls.name, clusters) }))
  return [...configured, ...others].map((upstream) => ({ ...upstream, ...judge(upstream.calls, now) }))
}

function describeCluster(name: string, states: ClusterStates | undefined): Readonly<{ label: string; origin: string }> {
  const id = Number(name.slice(name.indexOf(':') + 1))
  const known = states?.clusters.find((cluster) => cluster.id === id)
  return { label: known ? `cluster ${id} (${known.slug})` : `cluster ${id}`, origin: known?.origin ?? '–' }
}

function judge({ recent, waiting, settledMs }: NamedUpstream, now: Date): Pick<UpstreamHealth, 'isGood' | 'word'> {
  const calls = recent[columns.requests] ?? 0
  const failed = recent[columns.failed] ?? 0
  const silentMs = now.getTime() - settledMs
  if (waiting >= leastWaiting && silentMs >= silenceMs)
    return { isGood: false, word: `${amount(waiting)} wait, silent for ${duration(silentMs / 1_000)}` }
  if (failed > 0 && failed / calls >= failingShare) return { isGood: false, word: describeFailures(recent) }
  return calls > 0 ? { isGood: true, word: 'answers' } : { isGood: undefined, word: 'quiet' }
}

export function describeFailures(recent: readonly number[]): string {
  const [failed = 0, unreachable = 0, timedOut = 0] = [columns.failed, columns.unreachable, columns.timedOut].map(
    (column) => recent[column] ?? 0,
  )
  const words = [
    [unreachable, 'not reached'],
    [timedOut, 'timed out'],
    [failed - unreachable - timedOut, '5xx'],
  ] as const
  return words.flatMap(([count, word]) => (count > 0 ? [`${amount(count)} × ${word}`] : [])).join(', ')
}

export function renderUpstreams(upstreams: readonly UpstreamHealth[], query: ConsoleQuery, now: Date): Html {
  const range = toHistoryQuery(query, now)
  return renderLiveTable({
    id: 'upstreams',
    caption: 'Responses of upstreams and clusters',
    heads: [
      ...['Upstream', 'Address', 'Last minute'],
      ...['Calls', '5xx', 'Share', 'p50', 'p99', 'Waiting'].map((number) => ({ number })),
    ],
    rows: upstreams.map(({ name, label, origin, isGood, word, calls }) => {
      const trend = readTrend(calls, range, now)
      const [all, failed] = [trend.sum(columns.requests), trend.sum(columns.failed)]
      return html`<tr><th scope="row"><a href="${linkTo(query, { upstream: name, route: '' }, 'traffic')}">${label}</a></th><td><code>${origin}</code></td><td>${state(isGood, word)}</td><td class="number">${amount(all)}</td><td class="number${failed > 0 ? ' alarming' : ''}">${amount(failed)}</td><td class="number">${percent(failed, all)}</td><td class="number">${formatMs(trend.percentile(0.5))}</td><td class="number">${formatMs(trend.percentile(0.99))}</td><td class="number">${amount(calls.waiting)}</td></tr>`
    }),
    empty: 'None is configured.',
    isLarge: true,
  })
}
