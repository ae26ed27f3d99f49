import type { Permit } from '../authorize/decide.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import type { Exchange, RawHeaders } from '../http/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import type { RequestObserver, RequestRecord } from '../observe/request-record.ts'
import { auditRefusal, createAdmit, passAudit, renderRefusal, type Stages } from '../pipeline.ts'
import { readClient } from '../receive/client.ts'
import { readHeaders } from '../receive/headers.ts'
import { readRequestId } from '../receive/request-id.ts'
import { readTarget } from '../receive/target.ts'
import { asksForNginxStatuses, readOriginalRequest } from './original-request.ts'

const mostTimesAgain = 3

/**
 * Serves proxies that forward requests themselves. It runs the same policy and stages up to `pin`. The response is 200
 * with the pinned headers, or the refusal of the public listener.
 */
export const createDecision = (stage: Stages, serveAuthzen: ServeOther = () => undefined) => {
  const judge = createJudge(stage)
  const judgeAgain = createJudge({ ...stage, limit: uncounted })
  const judgeLatest = async (asked: Asked): Promise<RawHeaders> => {
    const { record, exchange } = asked
    for (let times = 0; times <= mostTimesAgain; times++) {
      const heard = stage.recheck.countHeard()
      const judged = await (times === 0 ? judge(asked) : judgeAgain({ ...asked, observer: record }))
      const { headers, upstream } = judged
      if (!upstream || !stage.recheck.isOutdated({ ...judged, upstream, exchange, report: record }, heard))
        return headers
    }
    throw new GatewayError('directory_unavailable')
  }
  const handle = async (exchange: Exchange): Promise<void> => {
    const requestId = readRequestId(exchange.headers)
    const record = stage.beginRecord(exchange, requestId)
    const observer = stage.observe(record, exchange, requestId)
    const answer = chooseAnswer(exchange, requestId)
    try {
      const permitted = await judgeLatest({ exchange, requestId, record, observer })
      await passAudit(stage.audit, record, observer, 200)
      answer(200, [...permitted, 'cache-control', 'no-store'], '')
    } catch (caught) {
      const refused = GatewayError.from(caught)
      exchange.willRefuse(refused.status)
      const error = await auditRefusal(stage.audit, record, observer, refused)
      const refusal = renderRefusal(error, record, requestId)
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

function createJudge(stage: Stages): (asked: Asked) => Promise<Judged> {
  const admit = createAdmit(stage, 'decision')
  return async ({ exchange, requestId, observer }) => {
    const path = exchange.target.split('?')[0] ?? ''
    if (path !== '/authorize' && !path.startsWith('/envoy/')) throw new GatewayError('route_not_found')
    const snapshot = stage.snapshot()
    const { widest } = snapshot.headLimits
    const headers = readHeaders(exchange, widest.headerBytes)
    const { method, target: told, host } = readOriginalRequest(exchange, headers.host)
    const client = readClient(exchange, headers, stage.isTrustedProxy)
    observer.onClient(client)
    const target = readTarget(method, told, host, widest.targetBytes)
    observer.onTarget(target, host, headers)
    const permit = await admit({ exchange, headers, client, requestId }, target, host, snapshot, observer)
    if (permit.match.route.destination.kind === 'answer') return { permit, host, headers: [], upstream: undefined }
    const upstream = keepPath(await snapshot.locate(permit, host), permit)
    observer.onUpstream(upstream)
    const { headers: pinned } = await stage.pin(permit, upstream)
    return {
      permit,
      host,
      upstream,
      headers: path === '/authorize' ? pinned : [...pinned, ...nameRemoved(pinned, upstream)],
    }
  }
}

type ServeOther = (exchange: Exchange) => Promise<void> | undefined

/** The proxy forwards the path that it asked about: no response could rewrite it. */
const keepPath = (upstream: Upstream, { match: { target } }: Permit): Upstream => ({
  ...upstream,
  path: `${target.path}${target.search}`,
  rewrittenPath: undefined,
  strippedPrefix: undefined,
})

/** nginx's `auth_request` supports 2xx, 401 and 403 alone, so `?statuses=nginx` puts the real status in a header. */
function chooseAnswer(exchange: Exchange, requestId: string) {
  const isNginx = asksForNginxStatuses(exchange.target)
  return (status: number, headers: readonly string[], body: string): void => {
    const sent = isNginx && status !== 200 && status !== 401 ? 403 : status
    const lines = headers.includes('x-request-id') ? [...headers] : [...headers, 'x-request-id', requestId]
    if (isNginx) lines.push('x-gateway-status', String(status))
    exchange.respond({ status: sent, headers: lines }, body)
  }
}

/**
 * Names the headers that Envoy must remove from the client's request. Envoy passes a client's header unless this
 * response overwrites or removes it, so a client could forge an organization.
 */
export function nameRemoved(
  pinned: RawHeaders,
  { forwardsCredentials, cookies }: Pick<Upstream, 'forwardsCredentials' | 'cookies'>,
): RawHeaders {
  const ours = ['x-gateway-identity', 'x-organization-id'].filter((name) => !pinned.includes(name))
  const credentials = forwardsCredentials ? [] : ['authorization', 'x-oauth-access-token']
  const names = [...ours, ...credentials, ...(cookies === 'strip' ? ['cookie'] : [])]
  return names.length === 0 ? [] : ['x-envoy-auth-headers-to-remove', names.join(',')]
}
