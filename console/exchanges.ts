import type { AdminPage, AdminState } from '../gateway/listeners/admin/listener.ts'
import {
  type ExchangePage,
  type ExchangeQuery,
  formatPlace,
  type ListedExchange,
  readExchangeQuery,
} from '../gateway/stages/recheck/list-exchanges.ts'
import { ago, amount } from './format.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'

const noFilter = { userId: null, organizationId: null, tokenId: null, route: null, requestId: null }

export const oldestExchanges: ExchangeQuery = { filter: noFilter, after: undefined, limit: 100 }

export const renderExchanges = (page: ExchangePage | undefined, now: Date): Html =>
  renderLiveTable({
    id: 'exchanges-table',
    caption: describePage(page),
    heads: [
      ...['Open since', 'Kind', 'Request, without its query', 'Route', 'Upstream', { number: 'User' }],
      ...[{ number: 'Organization' }, 'Credential', 'Client', { number: 'Bytes received' }, { number: 'Bytes sent' }],
      'Request id',
    ],
    rows: (page?.exchanges ?? []).map((exchange) => renderExchange(exchange, now)),
    empty: page ? 'No exchange is open.' : 'No process reports its exchanges.',
    isLarge: true,
  })

function describePage(page: ExchangePage | undefined): string {
  const { total = 0, exchanges = [] } = page ?? {}
  const all = `${amount(total)} open, oldest first`
  return exchanges.length < total ? `${all}; the first ${exchanges.length}, and all by sallyport sessions list` : all
}

function renderExchange(exchange: ListedExchange, now: Date): Html {
  const { place, kind, method, path, route, upstream, userId, organizationId, clientAddress, requestId } = exchange
  const openedAt = new Date(place[0]).toISOString()
  return html`<tr><th scope="row"><time datetime="${openedAt}">${ago(openedAt, now)}</time></th><td>${kind}</td>
<td class="path"><span class="methods">${method}</span> ${path ?? '–'}</td><td>${route ?? '–'}</td><td>${upstream}</td>
<td class="number">${userId ?? '–'}</td><td class="number">${organizationId ?? '–'}</td><td>${nameCredential(exchange)}</td>
<td><code>${clientAddress}</code></td><td class="number">${amount(exchange.receivedBytes)}</td><td class="number">${amount(exchange.sentBytes)}</td><td><code>${requestId}</code></td></tr>
`
}

const nameCredential = ({ credential, tokenId }: ListedExchange): string =>
  tokenId === undefined ? (credential ?? '–') : `token ${tokenId}`

export async function listExchanges(read: AdminState['exchanges'], parameters: URLSearchParams): Promise<AdminPage> {
  const query = readExchangeQuery(parameters)
  if (typeof query === 'string') return toJson(400, { error: query })
  const { total, exchanges } = await read(query)
  const last = exchanges.at(-1)
  const next = last && exchanges.length === query.limit ? formatPlace(last.place) : null
  return toJson(200, { total, exchanges: exchanges.map(toPlain), next })
}

const toPlain = ({ place, path, route, userId, organizationId, credential, tokenId, ...rest }: ListedExchange) => ({
  openedAt: new Date(place[0]).toISOString(),
  ...rest,
  path: path ?? null,
  route: route ?? null,
  userId: userId ?? null,
  organizationId: organizationId ?? null,
  credential: credential ?? null,
  tokenId: tokenId ?? null,
})

const toJson = (status: number, value: unknown): AdminPage => ({
  status,
  contentType: 'application/json; charset=utf-8',
  body: `${JSON.stringify(value)}\n`,
})
