// The decision listener: other proxies ask here whether they may forward, and AuthZEN clients ask about other users.

import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Exchange, RawHeaders } from '../../http/exchange.ts'
import type { RequestObserver, RequestRecord } from '../../observe/request-record.ts'
import { auditRefusal, createAdmit, notePreflight, passAudit, renderRefusal, type Stages } from '../../pipeline.ts'
import type { Route } from '../../policy/route.ts'
import { confirmOnce } from '../../rights/confirm-once.ts'
import type { Permit } from '../../stages/authorize/decide.ts'
import type { Upstream } from '../../stages/locate/upstream.ts'
import type { CredentialPlaces } from '../../stages/receive/carried-credentials.ts'
import { readClient } from '../../stages/receive/client.ts'
import { type RequestHeaders, readHeaders } from '../../stages/receive/headers.ts'
import { readRequestId } from '../../stages/receive/request-id.ts'
import { readTarget } from '../../stages/receive/target.ts'
import { asksForNginxStatuses, type ProxyEntry, readEntry, readOriginalRequest } from './original-request.ts'
import { type Preflights, permitPreflight } from './preflight.ts'

/**
 * Serves proxies that forward requests themselves. It runs the same policy and stages up to `pin`. The response is 200
 * with the pinned headers, or the refusal of the public listener.
 */
export const createDecision = (
  stage: Stages,
  { decision: { preflights = 'refuse' } }: Preflighting,
  serveAuthzen: ServeOther = () => undefined,
) => {
  const judge = createJudge(stage, preflights)
  const judgeAgain = createJudge({ ...stage, limit: uncounted }, preflights)
  const judgeLatest = async (asked: Asked): Promise<RawHeaders> => {
    const { record, exchange } = asked
    const heard = stage.recheck.countHeard()
    const isOutdated = ({ upstream, ...judged }: Judged): boolean =>
      upstream !== undefined && stage.recheck.isOutdated({ ...judged, upstream, exchange, report: record }, heard)
    const again = () => judgeAgain({ ...asked, observer: record })
    return (await confirmOnce(() => judge(asked), isOutdated, again)).headers
  }
  const handle = async (exchange: Exchange): Promise<void> => {
    const requestId = readRequestId(exchange.headers)
    const record = stage.beginRecord(exchange, requestId)
    const observer = stage.observe(record, exchange, requestId)
    const answer = chooseAnswer(exchange, requestId)
    try {
      const permitted = await judgeLatest({ exchange, requestId, record, observer })
      await passAudit(stage.audit, record, observer, 200)
      // A stored permit would be another caller's.
      answer(200, [...permitted, 'cache-control', 'no-store'], '')
    } catch (caught) {
      const refused = GatewayError.from(caught)
      exchange.willRefuse(refused.status)
      const error = await auditRefusal(stage.audit, record, observer, refused)
      const refusal = renderRefusal(error, record, requestId)
      // The proxy hands a refusal to the page, which may read it only so. A permit goes to the backend instead.
      stage.cors.decorate(exchange)
      answer(refusal.status, refusal.headers, refusal.body)
    }
  }
  return (exchange: Exchange): Promise<void> => serveAuthzen(exchange) ?? handle(exchange)
}

type Asked = Readonly<{
  exchange: Exchange
  requestId: string
  record: RequestRecord
  observer: RequestObserver
}>

/** Without an upstream for an endpoint of the gateway: the proxy sends that request to the public listener. */
type Judged = Readonly<{ permit: Permit; host: string; headers: RawHeaders; upstream: Upstream | undefined }>

const uncounted: Stages['limit'] = { checkAddress: async () => undefined, checkCaller: async () => undefined }

function createJudge(stage: Stages, preflights: Preflights): (asked: Asked) => Promise<Judged> {
  const admit = createAdmit(stage, 'decision')
  return async ({ exchange, requestId, record, observer }) => {
    const entry = readEntry(exchange.target)
    const snapshot = stage.snapshot()
    const { widest } = snapshot.headLimits
    const { places } = stage.credentials
    const headers = readHeaders(exchange, widest.headerBytes, places)
    const { method, target: told, host } = readOriginalRequest(exchange, headers.host)
    const client = readClient(exchange, headers, stage.isTrustedProxy)
    observer.onClient(client)
    const target = readTarget(method, told, host, widest.targetBytes)
    observer.onTarget(target, host, headers)
    const asked = { entry, lines: exchange.headers, headers, target }
    const preflight = preflights === 'permit' ? permitPreflight(stage.cors, asked, host, snapshot) : undefined
    if (preflight) {
      notePreflight(record, observer)
      return { permit: preflight, host, headers: nameRemoved(listForPreflight(entry, places)), upstream: undefined }
    }
    // A page's own origin has the host that the proxy tells.
    const received = { exchange, headers, client: { ...client, host }, requestId }
    const permit = await admit(received, target, host, snapshot, observer)
    const { route } = permit.match
    const copied = entry === 'envoy' ? listCopied(route) : []
    if (route.destination.kind === 'answer') return { permit, host, headers: nameRemoved(copied), upstream: undefined }
    const upstream = keepPath(await snapshot.locate(permit, host), permit)
    observer.onUpstream(upstream)
    const { headers: pinned } = await stage.pin(permit, upstream)
    const removed =
      entry === 'authorize'
        ? []
        : [...listClients(pinned, upstream), ...listAmbient(headers, upstream, places), ...copied]
    return { permit, host, upstream, headers: [...pinned, ...nameRemoved(removed)] }
  }
}

type Preflighting = Readonly<{ decision: Readonly<{ preflights?: Preflights }> }>

type ServeOther = (exchange: Exchange) => Promise<void> | undefined

/** The proxy forwards the path that it asked about: no response could rewrite it. */
const keepPath = (upstream: Upstream, { match: { target } }: Permit): Upstream => ({
  ...upstream,
  path: `${target.path}${target.search}`,
  rewrittenPath: undefined,
  strippedPrefix: undefined,
})

/** It is for no caller of any upstream, so all that names one goes. */
function listForPreflight(entry: ProxyEntry, places: CredentialPlaces | undefined): readonly string[] {
  if (entry === 'authorize') return []
  const removed = [...listClients([], { forwardsCredentials: false, cookies: 'strip' }), ...(places?.headers ?? [])]
  return entry === 'envoy' ? [...removed, ...listCopied({ isWebSocket: false })] : removed
}

/** nginx's `auth_request` supports 2xx, 401 and 403 alone, so `?statuses=nginx` puts the real status in a header. */
function chooseAnswer(exchange: Exchange, requestId: string) {
  const isNginx = asksForNginxStatuses(exchange.target)
  return (status: number, headers: readonly string[], body: string): void => {
    const sent = isNginx && status !== 200 && status !== 401 ? 403 : status
    const lines = headers.includes('x-request-id') ? [...headers] : [...headers, 'x-request-id', requestId]
    if (isNginx) lines.push('x-gateway-status', String(status))
    // Some proxies copy each line of a permit to the client's request.
    exchange.respond({ status: sent, headers: lines, isBare: status === 200 }, body)
  }
}

/** Envoy removes what is named here after it has copied headers of the permit to the client's request. */
const nameRemoved = (names: readonly string[]): RawHeaders =>
  names.length === 0 ? [] : ['x-envoy-auth-headers-to-remove', names.join(',')]

/**
 * The client's headers that must not reach the backend. Envoy passes a client's header unless this response overwrites
 * or removes it, so a client could forge an organization.
 */
export function listClients(
  pinned: RawHeaders,
  { forwardsCredentials, cookies }: Pick<Upstream, 'forwardsCredentials' | 'cookies'>,
): readonly string[] {
  const ours = ['x-gateway-identity', 'x-organization-id'].filter((name) => !pinned.includes(name))
  const credentials = forwardsCredentials ? [] : ['authorization', 'x-oauth-access-token']
  return [...ours, ...credentials, ...(cookies === 'strip' ? ['cookie'] : [])]
}

/** Headers that a proxy in front sets. Only the one that was read may arrive. */
const listAmbient = (
  { credentials }: Pick<RequestHeaders, 'credentials'>,
  { forwardsCredentials }: Pick<Upstream, 'forwardsCredentials'>,
  places: CredentialPlaces | undefined,
): readonly string[] =>
  [...(places?.headers ?? [])].filter((name) => !forwardsCredentials || !credentials.includes(name))

/**
 * Lines of a response that must not stay on a request, if Envoy copies all that the permit has. By `content-length: 0`
 * a backend reads the client's body as a further request, which no policy judged. A proxy between may add the others.
 * Envoy removes no `Host`, and servers of gRPC require `te`.
 */
const copiedNames = [
  'content-length',
  'transfer-encoding',
  'trailer',
  'keep-alive',
  'proxy-connection',
  'cache-control',
] as const

/** Envoy writes the client's own into the handshake, so a WebSocket would not be joined without them. */
const switchingNames = ['connection', 'upgrade', 'http2-settings'] as const

const listCopied = ({ isWebSocket }: Pick<Route, 'isWebSocket'>): readonly string[] =>
  isWebSocket ? copiedNames : [...copiedNames, ...switchingNames]
