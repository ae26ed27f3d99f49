import type { HistoryReading } from '../gateway/listeners/admin/history/history.ts'
import {
  listLimit,
  type RecentRequest,
  type RequestKind,
  requestKinds,
} from '../gateway/listeners/admin/history/recent-requests.ts'
import { formatMs } from './format.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'
import { type ConsoleQuery, linkTo } from './query.ts'
import { renderChoice } from './traffic.ts'

const kindWords: Readonly<Record<RequestKind, string>> = { refusal: 'refused', failure: 'failed', slow: 'slow' }

export const renderFilter = (
  { minutes, filter }: ConsoleQuery,
  { traffic }: HistoryReading,
): Html => html`<form action="/#requests" method="get" class="fields" id="filter"><input type="hidden" name="range" value="${String(minutes)}">
<label>Kind <select name="kind"><option value="">all</option>${requestKinds.map(
  (kind) =>
    html`<option value="${kind}"${kind === filter.kind ? html` selected` : undefined}>${kindWords[kind]}</option>`,
)}</select></label>
${renderChoice('reason', 'Cause', traffic.causes.map(({ name }) => name).sort(), filter.reason)}${renderChoice('route', 'Route', traffic.routes.map(({ name }) => name).sort(), filter.route)}${renderChoice('upstream', 'Upstream', traffic.upstreams.map(({ name }) => name).sort(), filter.upstream)}<label class="wide">Words <input name="find" value="${filter.text}" placeholder="path, address, user:7" autocomplete="off" spellcheck="false"></label>
<label class="wide">Request id <input name="id" value="${filter.requestId}" autocomplete="off" spellcheck="false"></label>
<button>Find</button>
</form>
`

/** Users appear by their ids: the console does not show personal names. */
export const renderRequests = (query: ConsoleQuery, { requests }: HistoryReading): Html =>
  renderLiveTable({
    id: 'requests-table',
    caption: requests.length < listLimit ? 'Newest first' : `The newest ${listLimit}`,
    heads: [
      ...['Time (UTC)', 'Kind', { number: 'Status' }, 'Cause', 'Request, without its query', 'Route', 'Upstream'],
      ...[{ number: 'User' }, { number: 'Organization' }, 'Client', { number: 'Took' }, 'Request id'],
    ],
    rows: requests.map((request) => renderRequest(request, query)),
    empty: isFiltered(query)
      ? 'No remembered request matches. The log and the audit have all of them.'
      : 'None since the start.',
    isLarge: true,
  })

const isFiltered = ({ filter }: ConsoleQuery): boolean => Object.values(filter).some((word) => word !== '')

function renderRequest(request: RecentRequest, query: ConsoleQuery): Html {
  const { kind, status, route, upstream, upstreamPath, requestId } = request
  const time = new Date(request.timeMs).toISOString()
  return html`<tr><th scope="row"><time datetime="${time}">${time.slice(11, 23)}</time></th><td><span class="kind ${kind}">${kindWords[kind]}</span></td>
<td class="number">${status ?? '–'}</td><td>${renderCause(request)}</td>
<td class="path">${renderTarget(request)}</td>
<td>${route ?? '–'}</td><td>${upstream ?? '–'}${upstreamPath === undefined ? undefined : html` <code>${upstreamPath}</code>`}</td><td class="number">${request.userId ?? '–'}</td><td class="number">${request.organizationId ?? '–'}</td>
<td><code>${request.clientAddress}</code></td><td class="number">${formatMs(request.durationMs)}</td><td><a class="small" href="${linkTo(query, { id: requestId, kind: '', reason: '', find: '', route: '', upstream: '' }, 'requests')}"><code>${requestId}</code></a></td></tr>
`
}

const renderCause = ({ reason, cause, tokenId }: RecentRequest): Html =>
  html`<code>${reason}</code>${cause === reason ? undefined : html` <code>${cause}</code>`}${
    tokenId === undefined ? undefined : html` <span class="tag">token ${tokenId}</span>`
  }`

function renderTarget({ listener, method, path, userId }: RecentRequest): Html {
  const asked = listener === 'decision' ? html` <span class="tag">decision</span>` : undefined
  if (path === undefined)
    return html`<span class="methods">${method ?? ''}</span> <span class="quiet">could not be read</span>${asked}`
  const question = new URLSearchParams({
    method: method ?? '',
    path,
    ...(userId === undefined && { credential: 'none' }),
  })
  return html`<span class="methods">${method ?? ''}</span> <a href="/?${question.toString()}#explain" title="Explain this method and path; choose the role there">${path}</a>${asked}`
}
