import type { PolicyStates } from '../policy-state.ts'
import type { Component } from './components.ts'
import { type Html, html } from './html.ts'
import type { MetricsReader } from './metrics-reader.ts'
import type { UpstreamHealth } from './upstreams.ts'

/** What an operator should look at, in a few words each; a cluster that is silent is its owner's matter. */
export function listProblems(
  parts: readonly Component[],
  policies: PolicyStates | undefined,
  upstreams: readonly UpstreamHealth[],
  figures: MetricsReader,
): readonly string[] {
  const downIn = (metric: string, label: string): readonly string[] =>
    figures.all(metric).flatMap(({ labels, value }) => (value === 0 ? (labels[label] ?? []) : []))
  return [
    ...(policies === undefined ? ['no process tells its policy'] : []),
    ...(policies?.live.held ? ['policy files are held back'] : []),
    ...parts.filter(({ isGood }) => !isGood).map(({ name, word }) => `${name}: ${word}`),
    ...downIn('sallyport_jwks_issuer_up', 'issuer').map((issuer) => `keys of ${issuer} could not be fetched`),
    ...downIn('sallyport_invalidation_source_up', 'source').map((source) => `invalidation source ${source} is down`),
    ...upstreams.filter(({ isGood }) => isGood === false).map(({ name, word }) => `upstream ${name}: ${word}`),
  ]
}

/** The first thing that is read: seen at a glance, and told by a screen reader whenever it changes. */
export const renderProblems = (troubles: readonly string[]): Html =>
  troubles.length === 0
    ? html`<div id="word" data-live role="status" class="word good"><strong>All is well.</strong></div>`
    : html`<div id="word" data-live role="status" class="word bad"><strong>${troubles.length === 1 ? 'Needs attention' : `${troubles.length} things need attention`}:</strong> ${troubles.join(' · ')}</div>`
