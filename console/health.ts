import type { ClusterStates } from '../gateway/listeners/admin/cluster-state.ts'
import { amount, duration, formatTime, percent, state } from './format.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'
import type { MetricsReader, Series } from './metrics-reader.ts'

export const renderIssuers = (figures: MetricsReader, issuers: readonly string[]): Html =>
  renderLiveTable({
    id: 'issuers',
    caption: 'Token issuers',
    heads: ['Issuer', 'Last fetch', { number: 'Age of keys' }, { number: 'Fetches' }, { number: 'Failed' }],
    rows: issuers.map((issuer) => {
      const isIts = (labels: Series['labels']): boolean => labels.issuer === issuer
      const read = (name: string): number | undefined => figures.all(name).find(({ labels }) => isIts(labels))?.value
      const up = read('sallyport_jwks_issuer_up')
      const age = read('sallyport_jwks_age_seconds')
      const word = up === undefined ? 'none yet' : up === 1 ? 'good' : 'failed'
      return html`<tr><th scope="row"><code>${issuer}</code></th><td>${state(up === undefined ? undefined : up === 1, word)}</td><td class="number">${age === undefined ? 'no keys' : duration(age)}</td><td class="number">${amount(figures.sum('sallyport_jwks_fetches_total', isIts))}</td><td class="number">${amount(figures.sum('sallyport_jwks_fetch_failures_total', isIts))}</td></tr>`
    }),
    empty: 'None is configured.',
  })

export function renderCaches(figures: MetricsReader): Html {
  const named = ['sallyport_cache_entries', 'sallyport_cache_reads_total'].flatMap((metric) =>
    figures.all(metric).flatMap(({ labels }) => labels.cache ?? []),
  )
  return renderLiveTable({
    id: 'caches',
    caption: 'Caches',
    heads: ['Cache', { number: 'Entries' }, { number: 'Reads' }, { number: 'Hits' }],
    rows: [...new Set(named)].sort().map((cache) => {
      const isIts = (labels: Series['labels']): boolean => labels.cache === cache
      const reads = figures.sum('sallyport_cache_reads_total', isIts)
      const hits = figures.sum('sallyport_cache_reads_total', (labels) => isIts(labels) && labels.result !== 'miss')
      return html`<tr><th scope="row">${cache}</th><td class="number">${amount(figures.sum('sallyport_cache_entries', isIts))}</td><td class="number">${amount(reads)}</td><td class="number">${percent(hits, reads)}</td></tr>`
    }),
    empty: 'None has been used yet.',
  })
}

export const renderSources = (figures: MetricsReader): Html =>
  renderLiveTable({
    id: 'sources',
    caption: 'Cache invalidation',
    heads: ['Source', 'State', { number: 'Received' }],
    rows: figures.all('sallyport_invalidation_source_up').map(({ labels: { source = '' }, value }) => {
      const received = figures.sum('sallyport_invalidations_received_total', (labels) => labels.source === source)
      return html`<tr><th scope="row">${source}</th><td>${state(value === 1, value === 1 ? 'up' : 'down')}</td><td class="number">${amount(received)}</td></tr>`
    }),
    empty: 'None.',
  })

export const renderClusters = (states: ClusterStates | undefined, now: Date): Html =>
  renderLiveTable({
    id: 'clusters',
    caption: `Clusters${nameRest(states)}`,
    heads: [{ number: 'Id' }, 'Cluster', 'State', 'Last heartbeat (UTC)', { number: 'Organization' }, 'Address'],
    rows: (states?.clusters ?? []).map(
      ({ id, slug, state: word, lastHeartbeatAt, organizationId, origin }) =>
        html`<tr><td class="number">${id}</td><th scope="row">${slug}</th><td>${state(judgements[word], word)}</td><td>${lastHeartbeatAt === undefined ? 'never' : formatTime(lastHeartbeatAt, now)}</td><td class="number">${organizationId}</td><td><code>${origin}</code></td></tr>`,
    ),
    empty: states ? 'No clusters.' : 'Not known: the database does not answer.',
    isLarge: true,
  })

const judgements = { active: true, suspended: undefined, offline: false } as const

function nameRest(states: ClusterStates | undefined): string {
  const rest = states ? states.total - states.clusters.length : 0
  return rest > 0 ? `: the first ${states?.clusters.length}, and ${amount(rest)} more in “sallyport clusters list”` : ''
}

export const renderConnections = (figures: MetricsReader): Html =>
  renderLiveTable({
    id: 'connections',
    caption: 'Client connections',
    heads: ['Listener', { number: 'Open' }, { number: 'Limit' }, { number: 'Dropped' }],
    rows: figures.all('sallyport_connections_open').map(({ labels: { listener = '' }, value }) => {
      const isIts = (labels: Series['labels']): boolean => labels.listener === listener
      const limit = figures.sum('sallyport_connections_limit', isIts)
      const dropped = figures.sum('sallyport_connections_dropped_total', isIts)
      return html`<tr><th scope="row">${listener}</th><td class="number">${amount(value)}</td><td class="number">${amount(limit)}</td><td class="number">${amount(dropped)}</td></tr>`
    }),
    empty: 'None.',
  })
