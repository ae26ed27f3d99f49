import type { PolicyChange, PolicyHold, PolicyState, PolicyStates } from '../gateway/listeners/admin/policy-state.ts'
import { amount, formatTime } from './format.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'
import type { MetricsReader } from './metrics-reader.ts'

export const renderPolicies = (states: PolicyStates | undefined, routes: number, now: Date): Html =>
  html`<div id="policy-state" data-live>${states ? renderLive(states.live, routes, now) : html`<p class="notice bad">No process reports its policy at the moment.</p>`}</div>
<div id="shadow-state" data-live>${states && renderShadow(states.shadow, now)}</div>
`

const renderLive = (policy: PolicyState, routes: number, now: Date): Html =>
  html`${
    policy.held && !policy.failure
      ? renderHeld(policy.held, now)
      : renderOutcome(policy, now, {
          good: html`<strong>The files are in force</strong>, as they are.`,
          bad: html`<strong>The files cannot be loaded. The last good ones stay in force.</strong>`,
          label: 'Why the policy files cannot be loaded',
        })
  }
<dl class="facts">
<div><dt>In force since</dt><dd>${policy.loadedAt === undefined ? '–' : formatTime(policy.loadedAt, now)}</dd></div>
<div><dt>Routes</dt><dd>${amount(routes)}</dd></div>
${policy.change && renderChange('Last change', policy.change, now)}
${renderFiles(policy)}
</dl>`

const renderChange = (label: string, { at, ...change }: PolicyChange, now: Date): Html =>
  html`<div><dt>${label}, ${formatTime(at, now)}</dt><dd>${listChanges(change).join(' · ') || 'no route'}</dd></div>`

const listChanges = ({ gained, lost, widened }: Omit<PolicyChange, 'at'>): readonly string[] => [
  ...gained.map((route) => `new: ${route}`),
  ...lost.map((route) => `gone: ${route}`),
  ...widened.map((what) => `wider: ${what}`),
]

const reasons: Readonly<Record<PolicyHold['reason'], string>> = {
  widening: 'They would allow callers who are refused now.',
  file_missing: 'A file is missing.',
  no_routes: 'They have no route.',
}

const renderHeld = ({ since, reason, names, widened }: PolicyHold, now: Date): Html =>
  html`<div class="notice bad"><p><strong>The files are held back. The last ones stay in force.</strong> ${reasons[reason]} <code>sallyport policy confirm</code> takes them. Since ${formatTime(since, now)}:</p>
<pre tabindex="0" role="region" aria-label="Held back">${[...names, ...widened].join('\n')}</pre></div>`

function renderShadow(shadow: PolicyState | undefined, now: Date): Html {
  if (!shadow) return html`<p class="quiet">No shadow policy is on trial (<code>policies.shadow</code>).</p>`
  const outcome = renderOutcome(shadow, now, {
    good: html`<strong>The shadow policy is on trial</strong>: it evaluates every request and decides none.`,
    bad: html`<strong>The shadow files cannot be loaded.</strong> ${
      shadow.loadedAt === undefined ? 'No shadow policy is on trial.' : 'The last good one stays on trial.'
    }`,
    label: 'Why the shadow files cannot be loaded',
  })
  return html`${outcome}
<dl class="facts">
<div><dt>On trial since</dt><dd>${shadow.loadedAt === undefined ? '–' : formatTime(shadow.loadedAt, now)}</dd></div>
${shadow.change && renderChange('Beside the policy in force', shadow.change, now)}
${renderFiles(shadow)}
</dl>`
}

type Sentences = Readonly<{ good: Html; bad: Html; label: string }>

const renderOutcome = ({ failure }: PolicyState, now: Date, { good, bad, label }: Sentences): Html =>
  failure
    ? html`<div class="notice bad"><p>${bad} Since ${formatTime(failure.since, now)}:</p>
<pre tabindex="0" role="region" aria-label="${label}">${failure.message}</pre></div>`
    : html`<p class="notice good">${good}</p>`

const renderFiles = ({ files, directory, fingerprint }: PolicyState): Html =>
  html`<div><dt>Fingerprint</dt><dd><code>${fingerprint ?? '–'}</code></dd></div>
<div><dt>Folder</dt><dd><code>${directory}</code></dd></div>
<div><dt>Files</dt><dd>${files.length === 0 ? '–' : files.map((name) => html`<code>${name}</code> `)}</dd></div>`

export function renderDifferences(figures: MetricsReader, hasShadow: boolean): Html | undefined {
  if (!hasShadow) return undefined
  const differences = [...figures.all('sallyport_shadow_differences_total')].sort(
    (one, other) => other.value - one.value,
  )
  return renderLiveTable({
    id: 'differences',
    caption: 'Requests that the shadow policy would have judged otherwise',
    heads: ['Route', 'Kind', { number: 'Requests' }],
    rows: differences.map(
      ({ labels: { route = '', kind = '' }, value }) =>
        html`<tr><th scope="row">${route}</th><td>${kind.replaceAll('_', ' ')}</td><td class="number">${amount(value)}</td></tr>`,
    ),
    empty: 'Nothing so far.',
  })
}
