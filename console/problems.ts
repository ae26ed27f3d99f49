import type { PolicyStates } from '../gateway/listeners/admin/policy-state.ts'
import type { Component } from './components.ts'
import { type Html, html } from './html.ts'
import type { MetricsReader } from './metrics-reader.ts'

/** The name stays the same while the problem lasts; the finding has its current figures. */
export type ConsoleProblem = Readonly<{
  name: string
  finding: string
  alert?: string
}>

const alerts: Readonly<Record<string, string>> = {
  database: 'SallyportDatabaseFailing',
  writes: 'SallyportDatabaseStandby',
  issuers: 'SallyportIssuerUnavailable',
  'policy files': 'SallyportPolicyReloadFailing',
  'shadow policy files': 'SallyportShadowReloadFailing',
  'identity keys': 'SallyportIdentityKeysReloadFailing',
  audit: 'SallyportAuditSinkDown',
}

export function listPartProblems(
  parts: readonly Component[],
  policies: PolicyStates | undefined,
  figures: MetricsReader,
): readonly ConsoleProblem[] {
  const downIn = (metric: string, label: string): readonly string[] =>
    figures.all(metric).flatMap(({ labels, value }) => (value === 0 ? (labels[label] ?? []) : []))
  return [
    ...(policies === undefined ? [{ name: 'policies', finding: 'no process reports its policy' }] : []),
    ...(policies?.live.held
      ? [{ name: 'policy files', finding: 'are held back', alert: 'SallyportPolicyHeld' } as const]
      : []),
    ...parts.filter(({ isGood }) => !isGood).map(toProblem),
    ...downIn('sallyport_jwks_issuer_up', 'issuer').map((issuer) => ({
      name: `issuer ${issuer}`,
      finding: 'its keys could not be fetched',
      alert: 'SallyportIssuerDown',
    })),
    ...downIn('sallyport_invalidation_source_up', 'source').map((source) => ({
      name: `invalidation source ${source}`,
      finding: 'is down',
      alert: source === 'redis' ? 'SallyportRedisDown' : 'SallyportInvalidationSourceDown',
    })),
    ...figures.all('sallyport_upstream_address_up').flatMap(({ labels: { upstream = '', address = '' }, value }) =>
      value === 0
        ? [
            {
              name: `upstream ${upstream}`,
              finding: `its address ${address} is down`,
              alert: 'SallyportUpstreamAddressDown',
            },
          ]
        : [],
    ),
  ]
}

function toProblem({ name, word }: Component): ConsoleProblem {
  const alert = alerts[name]
  return { name, finding: word, ...(alert !== undefined && { alert }) }
}

/** Screen readers announce the summary when it changes, so the changing figures stand in the list. */
export function renderProblems(problems: readonly ConsoleProblem[], earlier: string | undefined): Html {
  const names = [...new Set(problems.map(({ name }) => name))]
  const isGood = problems.length === 0
  const title = problems.length === 1 ? 'Needs attention' : `${problems.length} things need attention`
  return html`<p id="word" data-live role="status" class="word ${isGood ? 'good' : 'bad'}">${
    isGood ? html`<strong>All is well.</strong>` : html`<strong>${title}:</strong> ${names.join(' · ')}`
  }</p>
<div id="problems" data-live>${isGood ? undefined : html`<ul class="problems">${problems.map(renderProblem)}</ul>`}${
    earlier === undefined ? undefined : html`<p class="quiet">${earlier}</p>`
  }</div>
`
}

const renderProblem = ({ name, finding, alert }: ConsoleProblem): Html =>
  html`<li><strong>${name}</strong>: ${finding}${
    alert === undefined ? undefined : html` <a href="/console/runbook#${alert.toLowerCase()}">runbook</a>`
  }</li>`
