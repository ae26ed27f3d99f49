import type { Principal } from '../authenticate/principal.ts'
import type { Exchange } from '../engine/exchange.ts'
import type { GatewayError } from '../errors/gateway-error.ts'
import type { StreamFailureCode } from '../errors/stream-failure.ts'
import type { Upstream } from '../locate/upstream.ts'
import { methods } from '../policy/route.ts'
import type { Client } from '../receive/client.ts'
import type { Organization } from '../resolve/organization.ts'
import type { RouteMatch } from '../route/table.ts'
import { describeBug, describeError, type Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import { redact } from './redact.ts'

/** What is written down about one request: each stage tells its fact, and the end of the exchange writes the line. */
export type Trail = Readonly<{
  received: (client: Client) => void
  matched: (match: RouteMatch) => void
  authenticated: (principal: Principal) => void
  resolved: (organization: Organization | undefined) => void
  allowed: () => void
  located: (upstream: Upstream) => void
  refused: (error: GatewayError) => void
  /** The stream began, and then ended in a failure that its client was told of. */
  streamFailed: (code: StreamFailureCode, cause: unknown) => void
}>

export type BeginTrail = (exchange: Exchange, requestId: string) => Trail

/** What the line will say, and no more: a stream holds it until it ends, and there may be thousands. */
type Facts = {
  clientAddress: string | undefined
  /** On the decision listener the request that is judged is another than the one that asks. */
  method: string | undefined
  path: string | undefined
  route: string | undefined
  userId: number | undefined
  credential: string | undefined
  organizationId: number | undefined
  upstream: string | undefined
  reason: string | undefined
  error: GatewayError | undefined
  streamFailure: Readonly<{ code: StreamFailureCode; cause: unknown }> | undefined
}

const noFacts: Facts = {
  clientAddress: undefined,
  method: undefined,
  path: undefined,
  route: undefined,
  userId: undefined,
  credential: undefined,
  organizationId: undefined,
  upstream: undefined,
  reason: undefined,
  error: undefined,
  streamFailure: undefined,
}

/** No route: a label of its own, so that unknown paths cannot multiply series. */
const noRoute = 'none'

export const createTrails =
  (log: Log, metrics: Metrics, monotonicMs: () => number): BeginTrail =>
  (exchange, requestId) => {
    const startedMs = monotonicMs()
    const facts = { ...noFacts }
    exchange.onEnd((isComplete) => {
      const route = facts.route ?? noRoute
      const durationMs = monotonicMs() - startedMs
      metrics.countRequest(route, methodLabel(exchange.method), exchange.status, durationMs / 1000)
      metrics.countDecision(route, facts.reason ?? 'abandoned')
      const line = composeLine(exchange, requestId, facts, durationMs, isComplete)
      // A client that left is nobody's failure, whatever it interrupted.
      if (exchange.status >= 500 && facts.error) log.error(line, 'request failed')
      else if (facts.streamFailure) log.warn(line, 'stream failed')
      else log.info(line, 'request')
    })
    return {
      received: (client) => {
        facts.clientAddress = client.address
      },
      matched: (match) => {
        facts.route = match.route.id
        facts.method = match.target.method
        facts.path = match.target.path
      },
      authenticated: (principal) => {
        facts.userId = principal.user.id
        facts.credential = principal.proof.kind
      },
      resolved: (organization) => {
        facts.organizationId = organization?.id
      },
      allowed: () => {
        facts.reason = 'allowed'
      },
      located: (upstream) => {
        facts.upstream = upstream.name
      },
      refused: (error) => {
        facts.error = error
        // The decision stands even when what it allowed then failed.
        facts.reason ??= error.code
      },
      streamFailed: (code, cause) => {
        facts.streamFailure = { code, cause }
        metrics.countStreamFailure(code)
      },
    }
  }

/** A client may invent methods; series it may not. */
const methodLabel = (method: string): string => ((methods as readonly string[]).includes(method) ? method : 'other')

function composeLine(exchange: Exchange, requestId: string, facts: Facts, durationMs: number, isComplete: boolean) {
  const { clientAddress, method, path, route, reason, error, streamFailure } = facts
  return {
    requestId,
    clientAddress: clientAddress ?? exchange.peerAddress,
    method: method ?? exchange.method,
    // The query stays out: it is where careless clients put secrets.
    path: path === undefined ? undefined : redact(path),
    route,
    status: exchange.status,
    reason,
    ...(error && reason !== error.code && { failure: error.code }),
    ...(streamFailure && { failure: streamFailure.code }),
    userId: facts.userId,
    credential: facts.credential,
    organizationId: facts.organizationId,
    upstream: facts.upstream,
    durationMs: Math.round(durationMs * 1000) / 1000,
    ...(!isComplete && { isComplete }),
    ...(streamFailure?.cause !== undefined && { error: describeError(streamFailure.cause) }),
    // Below 500 a cause describes the client's input, which is none of the log's business.
    ...(error && error.status >= 500 && { error: error.status === 500 ? describeBug(error) : describeError(error) }),
  }
}
