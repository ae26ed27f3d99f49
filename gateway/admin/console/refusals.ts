import type { Refusal } from '../recent-refusals.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'

/** Who it was are numbers, to be looked up where names are kept. */
export const renderRefusals = (refusals: readonly Refusal[]): Html =>
  renderLiveTable({
    id: 'refusals-table',
    caption: `The last refusals${refusals.length > 0 ? ', newest first' : ''}`,
    heads: [
      'Time (UTC)',
      { number: 'Status' },
      'Reason',
      'Request, without its query',
      'Route',
      { number: 'User' },
      { number: 'Organization' },
      'Client',
      'Request id',
    ],
    rows: refusals.map(renderRefusal),
    empty: 'None since the start.',
    isLarge: true,
  })

const renderRefusal = (
  refusal: Refusal,
): Html => html`<tr><th scope="row"><time datetime="${refusal.time}">${refusal.time.slice(11, 23)}</time></th>
<td class="number">${refusal.status ?? '–'}</td><td><code>${refusal.code ?? '–'}</code></td>
<td class="path">${renderRequest(refusal)}</td>
<td>${refusal.route ?? '–'}</td><td class="number">${refusal.userId ?? '–'}</td><td class="number">${refusal.organizationId ?? '–'}</td>
<td><code>${refusal.clientAddress}</code></td><td><code class="small">${refusal.requestId}</code></td></tr>
`

function renderRequest({ listener, method, path }: Refusal): Html {
  const asked = listener === 'decision' ? html` <span class="tag">decision</span>` : undefined
  if (path === undefined)
    return html`<span class="methods">${method ?? ''}</span> <span class="quiet">could not be read</span>${asked}`
  const question = new URLSearchParams({ method: method ?? '', path })
  return html`<span class="methods">${method ?? ''}</span> <a href="/?${question.toString()}#explain" title="Explain this request">${path}</a>${asked}`
}
