// The listener of operators: health, metrics, keys and the console.

import type { WhoMayPage, WhoMayQuery } from '../../../console/who-may.ts'
import { isConsoleHost } from '../../base/lib/loopback.ts'
import type { Exchange, RawHeaders } from '../../http/exchange.ts'
import type { MetricsSnapshot } from '../../observe/metrics/combine.ts'
import { isHost } from '../../stages/receive/headers.ts'
import { readRequestId } from '../../stages/receive/request-id.ts'
import type { ExchangePage, ExchangeQuery } from '../../stages/recheck/list-exchanges.ts'
import type { ClusterStates } from './cluster-state.ts'
import type { HistoryQuery, HistoryReading } from './history/history.ts'
import type { PolicyStates } from './policy-state.ts'
import { isReady, type Readiness, stateOf } from './readiness.ts'

export type PublicKeys = Readonly<{ keys: readonly Readonly<{ kid?: string }>[] }>

export type AdminState = Readonly<{
  readiness: () => Promise<Readiness>
  metrics: () => Promise<MetricsSnapshot>
  publicKeys: () => Promise<PublicKeys>
  policies: () => Promise<PolicyStates>
  policyTexts: () => Promise<readonly (readonly [name: string, text: string])[]>
  history: (query: HistoryQuery) => Promise<HistoryReading>
  exchanges: (query: ExchangeQuery) => Promise<ExchangePage>
  clusters: () => Promise<ClusterStates>
  whoMay: (query: WhoMayQuery) => Promise<WhoMayPage>
}>

export type AdminPages = Readonly<{
  readiness: () => Promise<Readiness>
  metrics: () => Promise<Readonly<{ contentType: string; text: string }>>
  publicKeys: () => Promise<PublicKeys>
  console: (path: string, parameters: URLSearchParams) => Promise<AdminPage> | undefined
}>

export type AdminPage = Readonly<{ status: number; contentType: string; body: string; headers?: RawHeaders }>

/**
 * `isLocal` is true for a listener that is bound to loopback, however its `host` is written. Its pages are shown only at
 * hosts that no other site can own.
 */
export const createAdmin = (pages: AdminPages, isLocal: () => boolean) => (exchange: Exchange) => {
  const choosePage = (): Promise<AdminPage> => {
    const [host = '', another] = readLines(exchange.headers, 'host')
    // Checks of HTTP/1.0 send no Host, as HAProxy's do. Browsers always send one, so no rebound name comes this way.
    const isHealth = isHealthPage(exchange.target)
    const isUnnamed = isHealth && host === '' && another === undefined
    if (!isUnnamed && (another !== undefined || !isHost(host))) return json(400, { error: malformed })
    if (!isUnnamed && isLocal() && !isConsoleHost(host)) return json(421, { error: misdirected })
    if (asksDirectory(exchange.target) && isOfAnotherSite(exchange.headers)) return json(403, { error: crossSite })
    const isRead = ['GET', 'HEAD'].includes(exchange.method) || (isHealth && isPlainOptions(exchange))
    return isRead ? render(exchange.target, pages) : json(405, { error: 'method not allowed' }, ['allow', 'GET, HEAD'])
  }
  const page = choosePage()
  page
    .catch((error: unknown) => json(500, { error: error instanceof Error ? error.name : 'unknown' }))
    .then(({ status, contentType, body, headers = [] }) =>
      exchange.respond(
        {
          status,
          headers: [
            ...['content-type', contentType, 'cache-control', 'no-store'],
            ...['x-request-id', readRequestId(exchange.headers)],
            ...guards,
            ...headers,
          ],
        },
        body,
      ),
    )
    .catch(() => exchange.destroy())
}

const readLines = (headers: RawHeaders, wanted: string): readonly string[] =>
  headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === wanted)

const readHeader = (headers: RawHeaders, wanted: string): string => readLines(headers, wanted)[0] ?? ''

const isHealthPage = (target: string): boolean => /^\/(?:healthz|readyz)(?:\?|$)/.test(target)

/** The method of HAProxy's checks unless a line names another; a browser's preflight has an Origin. */
const isPlainOptions = ({ method, headers }: Exchange): boolean =>
  method === 'OPTIONS' && readHeader(headers, 'origin') === ''

const asksDirectory = (target: string): boolean => target.startsWith('/console/who-may')

const isOfAnotherSite = (headers: RawHeaders): boolean =>
  !['', 'none', 'same-origin'].includes(readHeader(headers, 'sec-fetch-site'))

const crossSite = 'a page of another site has asked; open the console itself'

/** RFC 9112 3.2: a server refuses a Host that is not there, comes twice or cannot be read (SPEC section 11). */
const malformed = 'send one Host, a name or an address with an optional port'

const misdirected = 'this host is not served on loopback; send localhost or an address as Host'

/** Other sites must not read, frame or sniff an operator's page. */
const guards: RawHeaders = ['x-content-type-options', 'nosniff', 'cross-origin-resource-policy', 'same-origin']

async function render(target: string, pages: AdminPages): Promise<AdminPage> {
  const [path = '', ...query] = target.split('?')
  switch (path) {
    case '/healthz':
      return json(200, { status: 'alive' })
    case '/readyz':
      return renderReadiness(await pages.readiness())
    case '/metrics': {
      const { contentType, text } = await pages.metrics()
      return { status: 200, contentType, body: text }
    }
    case '/.well-known/jwks.json':
      return json(200, await pages.publicKeys())
    default:
      return (
        pages.console(path, new URLSearchParams(query.join('?'))) ?? json(404, { error: 'not found', pages: known })
      )
  }
}

const known = ['/', '/healthz', '/readyz', '/metrics', '/.well-known/jwks.json']

const json = async (status: number, value: unknown, headers: RawHeaders = []): Promise<AdminPage> => ({
  status,
  contentType: 'application/json; charset=utf-8',
  body: `${JSON.stringify(value)}\n`,
  headers,
})

function renderReadiness(readiness: Readiness): Promise<AdminPage> {
  const status = isReady(readiness) ? 'ready' : 'unavailable'
  const reports = Object.entries(readiness)
  const checks = Object.fromEntries(reports.map(([name, report]) => [name, stateOf(report)]))
  const causes = Object.fromEntries(
    reports.flatMap(([name, report]) => (typeof report === 'string' ? [] : [[name, report.cause]])),
  )
  const told = { status, checks, ...(Object.keys(causes).length > 0 && { causes }) }
  return status === 'ready' ? json(200, told) : json(503, told, ['retry-after', '1'])
}
