import type { Permit } from '../authorize/decide.ts'
import type { Exchange, RawHeaders } from '../engine/exchange.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { render } from '../errors/render.ts'
import type { Surface } from '../errors/surface.ts'
import type { Trail } from '../observe/trail.ts'
import { authorize, type Snapshot, type Stages } from '../pipeline.ts'
import { readClient } from '../receive/client.ts'
import { requireHead } from '../receive/head-limits.ts'
import { readHeaders } from '../receive/headers.ts'
import { readRequestId } from '../receive/request-id.ts'
import { readTarget } from '../receive/target.ts'
import { MethodNotAllowed } from '../route/table.ts'
import { readOriginalRequest } from './original-request.ts'
import { nameRemoved } from './removed-headers.ts'

/**
 * The second front door, for proxies that forward themselves: the same table and the same stages up to `pin`.
 * 200 with the pinned headers, or the refusal that the first door would give.
 */
export const createDecision = (stage: Stages) =>
  async function handle(exchange: Exchange): Promise<void> {
    const requestId = readRequestId(exchange.headers)
    const trail = stage.beginTrail(exchange, requestId)
    const answer = chooseAnswer(exchange, requestId)
    let surface: Surface = 'platform'
    try {
      const permitted = await judge(exchange, requestId, stage, trail, (found) => {
        surface = found
      })
      await trail.settled(200)
      answer(200, [...permitted, 'cache-control', 'no-store'], '')
    } catch (caught) {
      const refused = GatewayError.from(caught)
      exchange.announce(refused.status)
      const error = await trail.refused(refused)
      const refusal = render(error, error instanceof MethodNotAllowed ? error.surface : surface, requestId)
      answer(refusal.status, refusal.headers, refusal.body)
    }
  }

/** Judges the original request; resolves to the headers that the proxy is to send on. */
async function judge(
  exchange: Exchange,
  requestId: string,
  stage: Stages,
  trail: Trail,
  onSurface: (surface: Surface) => void,
): Promise<readonly string[]> {
  const path = exchange.target.split('?')[0] ?? ''
  if (path !== '/authorize' && !path.startsWith('/envoy/')) throw new GatewayError('route_not_found')
  const snapshot = stage.snapshot()
  const { usual, widest } = snapshot.headLimits
  const headers = readHeaders(exchange, widest.headerBytes)
  const { method, target: told, host } = readOriginalRequest(exchange, headers.host)
  const client = readClient(exchange, headers, stage.isTrustedProxy)
  trail.received(client)
  const target = readTarget(method, told, host, widest.targetBytes)
  trail.targeted(target, host, headers)
  const match = snapshot.table.match(target, host)
  onSurface(match.route.surface)
  trail.matched(match)
  requireHead(headers, target, match.route.headLimits, usual)
  // What the gateway answers itself comes to the first door as well, and is counted there.
  const isLimited = match.route.rateLimit !== undefined && match.route.destination.kind !== 'answer'
  if (isLimited) await stage.limit.attend(match, client, exchange)
  const arrival = { clientAddress: client.address, requestId }
  const permit = await authorize(match, headers, arrival, snapshot.roles, stage, trail)
  trail.allowed()
  if (isLimited) await stage.limit.spend(permit, exchange)
  return pin(permit, snapshot, host, stage, trail, path !== '/authorize')
}

/** An endpoint that the gateway owns has no upstream: the proxy sends the request to the first door. */
async function pin(
  permit: Permit,
  { locate }: Snapshot,
  host: string,
  stage: Stages,
  trail: Trail,
  isEnvoy: boolean,
): Promise<RawHeaders> {
  if (permit.match.route.destination.kind === 'answer') return []
  const upstream = await locate(permit, host)
  trail.located(upstream)
  const { headers: pinned } = await stage.pin(permit, upstream)
  return isEnvoy ? [...pinned, ...nameRemoved(pinned, upstream)] : pinned
}

/** nginx's `auth_request` understands 2xx, 401 and 403 alone: `?statuses=nginx` keeps the truth in a header. */
function chooseAnswer(exchange: Exchange, requestId: string) {
  const [path, query] = exchange.target.split('?')
  // Under /envoy the query is the client's own.
  const isNginx = path === '/authorize' && new URLSearchParams(query).get('statuses') === 'nginx'
  return (status: number, headers: readonly string[], body: string): void => {
    const sent = isNginx && status !== 200 && status !== 401 ? 403 : status
    const lines = headers.includes('x-request-id') ? [...headers] : [...headers, 'x-request-id', requestId]
    if (isNginx) lines.push('x-gateway-status', String(status))
    exchange.answer({ status: sent, headers: lines }, body)
  }
}
