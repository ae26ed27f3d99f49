// The request, sent to one of its upstream’s addresses, with retries, load balancing and health checks.

import { GatewayError } from '../../base/errors/gateway-error.ts'
import { nameUser } from '../../directory/directory.ts'
import {
  type Cancellable,
  measureRequestHead,
  type PrepareHead,
  type Send,
  type Sharing,
  UpstreamError,
  type UpstreamFault,
  type UpstreamRequest,
  type UpstreamResult,
} from '../../http/engine.ts'
import type { Exchange, RawHeaders } from '../../http/exchange.ts'
import type { PreparedHeaders } from '../../http/prepared-headers.ts'
import { assertIssued, type Permit } from '../authorize/decide.ts'
import { type CookieRules, keepCookies } from '../locate/cookies.ts'
import type { Attempt, Upstream } from '../locate/upstream.ts'
import type { Client } from '../receive/client.ts'
import type { RequestHeaders } from '../receive/headers.ts'
import { createWaitingShares, type WaitingShares } from './waiting-shares.ts'

export type Received = Readonly<{
  exchange: Exchange
  headers: RequestHeaders
  client: Client
  requestId: string
}> & {
  onCancellable?: UpstreamRequest['onCancellable'] | undefined
}

export type Forward = (
  permit: Permit,
  upstream: Upstream,
  prepare: PrepareHead,
  received: Received,
) => Promise<UpstreamResult>

const idempotent = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'])

/**
 * Waits for a body that has not begun, undefined where it has. Without this, a client that sends heads alone would hold
 * an address of the balancer and a connection for each, until `bodyIdleMs` is over.
 */
export function awaitBody(upstream: Upstream, { exchange, onCancellable }: Received): Promise<void> | undefined {
  const { body } = exchange
  if ((body.length ?? 0) > upstream.bodyLimitBytes) throw new GatewayError('body_too_large')
  const begun = body.begin(upstream.timeouts.bodyIdleMs)
  if (begun === undefined) return undefined
  onCancellable?.(body)
  return begun.catch((error: unknown) => {
    throw toGatewayError(error, upstream)
  })
}

/**
 * Throws for a head that the upstream would refuse, before it is contacted. Many backends close the connection on one, or
 * answer with a page of their own.
 */
export function requireForwardedHead(
  permit: Permit,
  upstream: Upstream,
  limitBytes: number,
  pinned: PreparedHeaders,
  received: Received,
): void {
  const { exchange } = received
  const { route, target } = permit.match
  const request = {
    method: target.method,
    path: upstream.path,
    headers: composeHeaders(permit, upstream, received),
    body: exchange.body.length === 0 ? undefined : exchange.body,
    asksForWebSocket: exchange.isHandshake && route.isWebSocket,
  }
  const connection = { authority: new URL(upstream.origin).host, isForOne: false }
  if (measureRequestHead(request, connection, pinned) > limitBytes) throw new GatewayError('forwarded_head_too_large')
}

export const createForward =
  (send: Send, shares: WaitingShares = createWaitingShares(Number.POSITIVE_INFINITY)): Forward =>
  (permit, upstream, prepare, received) => {
    assertIssued(permit)
    const sharing = shareConnections(permit, upstream)
    if (permit.match.route.surface !== 'model') return sendOnce(send, sharing, permit, upstream, prepare, received)
    const leave = shares.enter(upstream.name, sharing.owner)
    if (!leave) return Promise.reject(new GatewayError('upstream_share_full', { retryAfter: '1' }))
    // A mistake that is thrown here must give the place back, too.
    return new Promise<UpstreamResult>((resolve) =>
      resolve(sendOnce(send, sharing, permit, upstream, prepare, received)),
    ).finally(leave)
  }

function sendOnce(
  send: Send,
  sharing: Sharing,
  permit: Permit,
  upstream: Upstream,
  prepare: PrepareHead,
  received: Received,
): Promise<UpstreamResult> {
  const { exchange } = received
  const { route, target } = permit.match
  const { method } = target
  const hasBody = exchange.body.length !== 0
  const request: UpstreamRequest = {
    origin: upstream.origin,
    sharing,
    tls: upstream.tls,
    networks: upstream.networks,
    method,
    path: upstream.path,
    headers: composeHeaders(permit, upstream, received),
    prepare,
    body: hasBody ? exchange.body : undefined,
    account: exchange.account,
    headLimitBytes: upstream.headLimitBytes,
    bodyLimitBytes: upstream.bodyLimitBytes,
    asksForWebSocket: exchange.isHandshake && route.isWebSocket,
    timeouts: upstream.timeouts,
    isFreshConnection: false,
    onCancellable: received.onCancellable ?? cancelledBy(exchange),
  }
  const { balancer } = upstream
  // The body is a stream, which can be sent only once.
  const isRepeatable = !hasBody && idempotent.has(method)
  const first = balancer?.pick(isRepeatable)
  return begin(send, directTo(first, request)).then(
    (answer) => noteAnswer(first, answer, exchange),
    (error: unknown) => {
      noteFailure(first, error)
      const fault = error instanceof UpstreamError ? error.fault : undefined
      const mayRepeat = fault === 'unsent' || isUntouched(fault) || (isRepeatable && isUnheard(fault))
      if (!mayRepeat) throw toGatewayError(error, request)
      const second = first && balancer?.pickOther([first])
      // An unreachable address is not tried again at once, but another one may be.
      if (isUntouched(fault) && !second) throw toGatewayError(error, request)
      return sendElsewhere(second ?? first, first ? [first] : [], { send, request, upstream, exchange })
    },
  )
}

/** A synchronous error becomes a rejection, so that the address also counts the attempt as failed. */
function begin(send: Send, request: UpstreamRequest): Promise<UpstreamResult> {
  try {
    return send(request)
  } catch (error) {
    return Promise.reject(error)
  }
}

/** Answers without a caller are everyone's, and those of a user without an organization are that user's. */
function shareConnections({ caller, match }: Permit, { name, isIsolated }: Upstream): Sharing {
  const organization = caller?.organization
  const owner = organization?.id ?? (caller ? `user ${nameUser(caller.principal.user)}` : 'public')
  return { upstream: name, route: match.route.id, owner, isIsolated }
}

const cancelledBy =
  (exchange: Exchange): UpstreamRequest['onCancellable'] =>
  (request) =>
    exchange.onEnd(cancelUnlessWhole, request)

const cancelUnlessWhole = (isComplete: boolean, request: Cancellable): void => {
  if (!isComplete) request.cancel()
}

/** Without a connection no byte of the request has left, so even a POST may be sent elsewhere. */
const isUntouched = (fault: UpstreamFault | undefined): boolean => fault === 'unreachable'

/**
 * A reused connection may close at the same moment. After a response's first byte, the upstream may have acted already.
 */
const isUnheard = (fault: UpstreamFault | undefined): boolean => fault === 'stale' || fault === 'no-response'

type Sending = Readonly<{
  send: Send
  request: UpstreamRequest
  upstream: Pick<Upstream, 'balancer'>
  exchange: Exchange
}>

async function sendElsewhere(
  attempt: Attempt | undefined,
  tried: readonly Attempt[],
  sending: Sending,
): Promise<UpstreamResult> {
  const { send, request, upstream, exchange } = sending
  try {
    return noteAnswer(attempt, await send({ ...directTo(attempt, request), isFreshConnection: true }), exchange)
  } catch (error) {
    noteFailure(attempt, error)
    const all = attempt ? [...tried, attempt] : tried
    const fault = error instanceof UpstreamError ? error.fault : undefined
    const next = isUntouched(fault) ? upstream.balancer?.pickOther(all) : undefined
    if (!next) throw toGatewayError(error, request)
    return sendElsewhere(next, all, sending)
  }
}

const directTo = (attempt: Attempt | undefined, request: UpstreamRequest): UpstreamRequest =>
  !attempt || attempt.origin === request.origin ? request : { ...request, origin: attempt.origin }

function noteAnswer(attempt: Attempt | undefined, answer: UpstreamResult, exchange: Exchange): UpstreamResult {
  attempt?.answered()
  if (attempt?.end) exchange.onEnd(attempt.end)
  return answer
}

/** A stale or cancelled connection says nothing about the address. */
function noteFailure(attempt: Attempt | undefined, error: unknown): void {
  const fault = error instanceof UpstreamError ? error.fault : undefined
  if (fault === 'unreachable' || fault === 'no-response') attempt?.failed()
  attempt?.end?.()
}

/**
 * Composes the client's headers, then the proxy's. The pinned headers follow last, so that no client header can name
 * them.
 */
function composeHeaders(permit: Permit, upstream: Upstream, received: Received): RawHeaders {
  const { headers, client, exchange, requestId } = received
  const own = upstream.cookies === 'forward' ? headers.passing : keepCookieLines(headers.passing, upstream.cookies)
  const passing = permit.match.route.surface === 'model' ? askingForIdentity(own) : own
  const lines: string[] = upstream.host === undefined ? [...passing] : ['host', upstream.host, ...passing]
  if (exchange.body.length) lines.push('content-length', String(exchange.body.length))
  for (let index = 0; index < headers.overrides.length; index += 2) {
    const name = headers.overrides[index] ?? ''
    if (upstream.passedOverrides.has(name.toLowerCase())) lines.push(name, headers.overrides[index + 1] ?? '')
  }
  if (upstream.forwardsCredentials) lines.push(...headers.credentials)
  lines.push('x-forwarded-for', client.forwardedFor, 'x-forwarded-proto', client.proto, 'x-forwarded-host', client.host)
  if (upstream.strippedPrefix !== undefined) lines.push('x-forwarded-prefix', upstream.strippedPrefix)
  lines.push('x-request-id', requestId)
  return lines
}

function keepCookieLines(lines: RawHeaders, rules: CookieRules): RawHeaders {
  const kept: string[] = []
  for (let index = 0; index < lines.length; index += 2) {
    const name = lines[index] ?? ''
    const value = lines[index + 1] ?? ''
    const passing = name.toLowerCase() === 'cookie' ? keepCookies(value, rules) : value
    if (passing !== undefined) kept.push(name, passing)
  }
  return kept
}

/** Event streams must not be compressed, because the relay must find their events (SPEC section 6). */
const askingForIdentity = (lines: RawHeaders): RawHeaders => [
  ...lines.filter((_, index) => lines[index - (index % 2)]?.toLowerCase() !== 'accept-encoding'),
  'accept-encoding',
  'identity',
]

/** The clients retry 500 and 503 alone, so an upstream's failure is 503 and never 502 or 504. */
function toGatewayError(error: unknown, { networks }: Pick<UpstreamRequest, 'networks'>): GatewayError {
  if (!(error instanceof UpstreamError)) return GatewayError.from(error)
  switch (error.fault) {
    case 'timeout':
      return new GatewayError('upstream_timeout', { cause: error })
    case 'head-too-large':
      // Without the error of the upstream, which was not asked and must not look as if it had failed.
      return new GatewayError('forwarded_head_too_large')
    case 'body-too-large':
      return new GatewayError('body_too_large', { cause: error })
    case 'body-malformed':
      return new GatewayError('body_malformed', { cause: error })
    case 'body-timeout':
      return new GatewayError('request_timeout', { cause: error })
    case 'unreachable':
      return new GatewayError(networks ? 'cluster_unreachable' : 'upstream_unreachable', { cause: error })
    case 'no-response':
    case 'stale':
    case 'unsent':
      return new GatewayError('upstream_no_response', { cause: error })
    case 'cancelled':
      return error.cause === undefined
        ? new GatewayError('upstream_no_response', { cause: error })
        : GatewayError.from(error.cause)
    case 'pool-exhausted':
      return new GatewayError('upstream_pool_exhausted', { cause: error })
    case 'protocol-error':
      return new GatewayError('upstream_protocol_error', { cause: error })
    default:
      return error.fault satisfies never
  }
}
