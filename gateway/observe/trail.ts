import type { Principal } from '../authenticate/principal.ts'
import type { Exchange } from '../engine/exchange.ts'
import { GatewayError, type RefusalCode } from '../errors/gateway-error.ts'
import type { StreamFailureCode } from '../errors/stream-failure.ts'
import type { Upstream } from '../locate/upstream.ts'
import { methods } from '../policy/route.ts'
import type { Client } from '../receive/client.ts'
import type { RequestTarget } from '../receive/target.ts'
import type { Organization, OrganizationHeaders } from '../resolve/organization.ts'
import type { Resource } from '../resolve/resource.ts'
import type { RouteMatch } from '../route/table.ts'
import type { Audit } from './audit/audit.ts'
import type { AuditedDecision, Door } from './audit/line.ts'
import { describeBug, describeError, type Log, type LogFields } from './log.ts'
import type { Metrics } from './metrics.ts'
import { redact } from './redact.ts'

/** What is written down about one request: each stage tells its fact, and the end of the exchange writes the line. */
export type Trail = Readonly<{
  received: (client: Client) => void
  /** The host is that of the request that is judged; of the headers only those that decide are of interest. */
  targeted: (target: RequestTarget, host: string, headers: OrganizationHeaders) => void
  matched: (match: RouteMatch) => void
  authenticated: (principal: Principal) => void
  resolved: (organization: Organization | undefined) => void
  found: (resource: Resource | undefined) => void
  allowed: () => void
  located: (upstream: Upstream) => void
  /**
   * What is to be done is settled: resolves when it may be done, and rejects where it cannot be written down. The
   * status is known where the answer is ours.
   */
  settled: (status?: number) => Promise<void> | undefined
  /** Resolves to what the client is told: this very refusal, or that it could not be written down. */
  refused: (error: GatewayError) => Promise<GatewayError>
  /** A bug of ours, after the answer began. */
  broke: (error: unknown) => void
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

/** A line of more than 4 KiB may be torn where others write to the same pipe; no honest path is so long. */
const pathLimit = 1_024

/** What the audit says beyond that. */
type Findings = { target?: RequestTarget; principal?: Principal; organization?: Organization | undefined }

/** No route: a label of its own, so that unknown paths cannot multiply series. */
const noRoute = 'none'

type Surroundings = Readonly<{
  log: Log
  metrics: Metrics
  audit: Audit
  now: () => Date
  monotonicMs: () => number
}>

export const createTrails =
  ({ log, metrics, audit, now, monotonicMs }: Surroundings, door: Door): BeginTrail =>
  (exchange, requestId) => {
    const startedMs = monotonicMs()
    const facts = { ...noFacts }
    /** Let go of once it is written down. */
    let findings: Findings | undefined = {}
    /** Once for each request, whatever becomes of it afterwards. */
    const record = (status: number | undefined, error?: GatewayError): Promise<void> | undefined => {
      if (!findings) return undefined
      if (!audit.isOn && !error) {
        findings = undefined
        return undefined
      }
      const decision = composeDecision(exchange, facts, findings, { time: now(), requestId, door, status, error })
      findings = undefined
      return audit.record(decision)
    }
    exchange.onEnd((isComplete) => {
      const route = facts.route ?? noRoute
      const durationMs = monotonicMs() - startedMs
      metrics.countRequest(route, methodLabel(exchange.method), exchange.status, durationMs / 1000)
      metrics.countDecision(route, facts.reason ?? 'abandoned')
      const line = composeLine(exchange, requestId, facts, durationMs, isComplete)
      // A client that left is nobody's failure, whatever it interrupted.
      if (isOurs(facts) || (exchange.status >= 500 && facts.error)) log.error(line, 'request failed')
      else if (facts.streamFailure) log.warn(line, 'stream failed')
      else log.request(line)
    })
    return {
      received: (client) => {
        facts.clientAddress = client.address
      },
      targeted: (target) => {
        if (findings) findings.target = target
      },
      matched: (match) => {
        facts.route = match.route.id
        facts.method = match.target.method
        facts.path = match.target.path
      },
      authenticated: (principal) => {
        if (findings) findings.principal = principal
        facts.userId = principal.user.id
        facts.credential = principal.proof.kind
      },
      resolved: (organization) => {
        if (findings) findings.organization = organization
        facts.organizationId = organization?.id
      },
      found: () => undefined,
      allowed: () => {
        facts.reason = 'allowed'
      },
      located: (upstream) => {
        facts.upstream = upstream.name
      },
      settled: (status) => record(status),
      refused: async (error) => {
        facts.error = error
        // The decision stands even when what it allowed then failed.
        facts.reason ??= error.code
        try {
          await record(error.status, error)
        } catch (caught) {
          facts.error = GatewayError.from(caught)
        }
        return facts.error
      },
      broke: (error) => {
        facts.error = GatewayError.from(error)
      },
      streamFailed: (code, cause) => {
        facts.streamFailure = { code, cause }
        metrics.countStreamFailure(code)
      },
    }
  }

const isOurs = ({ error, streamFailure }: Facts): boolean =>
  error?.code === 'internal' || streamFailure?.code === 'internal_error'

/** A client may invent methods; series it may not. */
const methodLabel = (method: string): string => ((methods as readonly string[]).includes(method) ? method : 'other')

function composeLine(exchange: Exchange, requestId: string, facts: Facts, durationMs: number, isComplete: boolean) {
  const { clientAddress, method, path, route, reason, error, streamFailure } = facts
  return {
    requestId,
    clientAddress: clientAddress ?? exchange.peerAddress,
    method: method ?? exchange.method,
    // The query stays out: it is where careless clients put secrets.
    path: path === undefined ? undefined : redact(path).slice(0, pathLimit),
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
    ...(streamFailure?.cause !== undefined && { error: describe(streamFailure.code, streamFailure.cause) }),
    // Below 500 a cause describes the client's input, which is none of the log's business.
    ...(error && error.status >= 500 && { error: describe(error.code, error) }),
  }
}

/** Of a bug the place counts where it was thrown, not where we gave it its code. */
const describe = (code: RefusalCode | StreamFailureCode, error: unknown): LogFields =>
  code === 'internal' || code === 'internal_error'
    ? describeBug(error instanceof GatewayError ? (error.cause ?? error) : error)
    : describeError(error)

type Verdict = Pick<AuditedDecision, 'time' | 'requestId' | 'door' | 'status' | 'error'>

function composeDecision(
  exchange: Exchange,
  { clientAddress, route }: Facts,
  { target, principal, organization }: Findings,
  verdict: Verdict,
): AuditedDecision {
  return {
    ...verdict,
    outcome: verdict.error ? 'refused' : 'allowed',
    principal,
    organization,
    route,
    // Who asks at the decision door asks about another request, of which nothing is known yet.
    method: target?.method ?? (verdict.door === 'proxy' ? exchange.method : undefined),
    path: target?.path,
    clientAddress: clientAddress ?? exchange.peerAddress,
  }
}
