// Log, metrics, audit and traces of a request all follow this one record.

import { GatewayError } from '../base/errors/gateway-error.ts'
import { type AccessEndCode, isAccessEnd, type StreamFailureCode } from '../base/errors/stream-failure.ts'
import type { Surface } from '../base/errors/surface.ts'
import { ownText } from '../base/lib/own-text.ts'
import { nameUser } from '../directory/directory.ts'
import type { Exchange } from '../http/exchange.ts'
import { methods } from '../policy/route.ts'
import type { Principal } from '../stages/authenticate/principal.ts'
import type { Upstream } from '../stages/locate/upstream.ts'
import type { Client } from '../stages/receive/client.ts'
import type { RequestHeaders } from '../stages/receive/headers.ts'
import { isRequestId } from '../stages/receive/request-id.ts'
import type { RequestTarget } from '../stages/receive/target.ts'
import type { Organization, OrganizationHeaders } from '../stages/resolve/organization.ts'
import type { Resource } from '../stages/resolve/resource.ts'
import type { RouteMatch } from '../stages/route/table.ts'
import { type AccessLogFacts, composeEntry, isBug, noFacts } from './access-log-entry.ts'
import type { AskingProgram, AuditedDecision, AuditedListener } from './audit/line.ts'
import type { NoteUnreadableChain } from './chain-warnings.ts'
import type { Log } from './log/log.ts'
import { redactPath } from './log/redact.ts'
import type { Metrics } from './metrics/metrics.ts'

export type DecidingHeaders = OrganizationHeaders & Pick<RequestHeaders, 'passing'>

/** Receives the facts of one request from each stage. Events return nothing, so an observer cannot decide anything. */
export type RequestObserver = Readonly<{
  onClient: (client: Client) => void
  /** `host` is the judged request's; `headers` are only those that decide. */
  onTarget: (target: RequestTarget, host: string, headers: DecidingHeaders) => void
  onMatch: (match: RouteMatch) => void
  onPrincipal: (principal: Principal) => void
  onOrganization: (organization: Organization | undefined) => void
  onResource: (resource: Resource | undefined) => void
  onAllowed: () => void
  onUpstream: (upstream: Upstream) => void
  onSettled: () => void
  onRefusal: (error: GatewayError) => void
  onUnrecorded: (error: GatewayError) => void
  onUpstreamRequestId: (upstreamRequestId: string) => void
  onBug: (error: unknown) => void
  onStreamFailure: (code: StreamFailureCode, cause: unknown) => void
}>

export type RequestRecord = RequestObserver &
  Readonly<{
    surface: Surface
    noteAccessEnd: (code: AccessEndCode, cause: unknown) => void
    onEvaluator: (name: string, organizationId: number | undefined) => void
    /** A preflight is permitted without a route and a caller, which the audit says. */
    notePreflight: () => void
    describeOpening: () => RecordedOpening
    /** The decision for the audit, if `isOn`; undefined after the first call. */
    takeDecision: (isOn: boolean, status: number | undefined, error?: GatewayError) => AuditedDecision | undefined
  }>

export type RecordedOpening = Readonly<{
  requestId: string
  clientAddress: string
  path: string | undefined
  route: string | undefined
}>

export type BeginRecord = (exchange: Exchange, requestId: string) => RequestRecord

export type ObserveRequest = (observer: RequestObserver, exchange: Exchange, requestId: string) => RequestObserver

type Findings = {
  target?: RequestTarget
  principal?: Principal
  evaluator?: AskingProgram
  organization?: Organization | undefined
  isPreflight?: true
}

/** As on the console: a list of exchanges must tell one from another, and thousands may keep their paths open. */
const pathLimit = 256

/** A label for unmatched requests, so that unknown paths cannot multiply series. */
const noRoute = 'none'

export type EndedRequest = Readonly<{
  exchange: Exchange
  requestId: string
  listener: AuditedListener
  facts: AccessLogFacts
  decision: AuditedDecision | undefined
  durationMs: number
  isComplete: boolean
}>

type RecordDependencies = Readonly<{
  log: Log
  metrics: Metrics
  now: () => Date
  monotonicMs: () => number
  onRequestEnd?: (request: EndedRequest) => void
  onUnreadableChain?: NoteUnreadableChain
}>

export const createRecords =
  (dependencies: RecordDependencies, listener: AuditedListener): BeginRecord =>
  (exchange, requestId) =>
    new FactRecord(exchange, requestId, dependencies, listener)

class FactRecord implements RequestRecord {
  readonly #exchange: Exchange
  readonly #requestId: string
  readonly #dependencies: RecordDependencies
  readonly #listener: AuditedListener
  readonly #startedMs: number
  readonly #facts: AccessLogFacts = { ...noFacts }
  #surface: Surface = 'platform'
  #findings: Findings | undefined = {}
  #decision: AuditedDecision | undefined

  constructor(exchange: Exchange, requestId: string, dependencies: RecordDependencies, listener: AuditedListener) {
    this.#exchange = exchange
    this.#requestId = requestId
    this.#dependencies = dependencies
    this.#listener = listener
    this.#startedMs = dependencies.monotonicMs()
    exchange.onEnd(FactRecord.#onEnd, this)
  }

  get surface(): Surface {
    return this.#surface
  }

  onClient(client: Client): void {
    this.#facts.clientAddress = client.address
    if (client.unreadableChain) this.#dependencies.onUnreadableChain?.(client.unreadableChain.peer, client.address)
  }

  onTarget(target: RequestTarget): void {
    if (this.#findings) this.#findings.target = target
  }

  onMatch({ route, target }: RouteMatch): void {
    this.#surface = route.surface
    this.#facts.route = route.id
    this.#facts.method = target.method
    this.#facts.path = target.path
  }

  onPrincipal(principal: Principal): void {
    if (this.#findings) this.#findings.principal = principal
    this.#facts.userId = nameUser(principal.user)
    this.#facts.credential = principal.credential.kind
  }

  onOrganization(organization: Organization | undefined): void {
    if (this.#findings) this.#findings.organization = organization
    this.#facts.organizationId = organization?.id
  }

  onEvaluator(name: string, organizationId: number | undefined): void {
    if (this.#findings) this.#findings.evaluator = { name, organizationId }
    this.#facts.userId = name
    this.#facts.credential = 'certificate'
    this.#facts.organizationId = organizationId
  }

  onResource(): void {}

  notePreflight(): void {
    if (this.#findings) this.#findings.isPreflight = true
  }

  onAllowed(): void {
    this.#facts.reason = 'allowed'
  }

  onUpstream(upstream: Upstream): void {
    this.#facts.upstream = upstream.name
    this.#facts.upstreamPath = upstream.rewrittenPath
  }

  onSettled(): void {}

  onRefusal(error: GatewayError): void {
    this.#facts.error = error
    // The decision stands even if the allowed request failed later.
    this.#facts.reason ??= error.code
  }

  onUnrecorded(error: GatewayError): void {
    this.#facts.error = error
  }

  onUpstreamRequestId(upstreamRequestId: string): void {
    if (upstreamRequestId !== this.#requestId && isRequestId(upstreamRequestId))
      this.#facts.upstreamRequestId = ownText(upstreamRequestId)
  }

  onBug(error: unknown): void {
    this.#facts.error = GatewayError.from(error)
  }

  onStreamFailure(code: StreamFailureCode, cause: unknown): void {
    this.#facts.streamFailure = { code, cause }
    // Ends of rights have a metric of their own, because no worker is at fault.
    if (!isAccessEnd(code)) this.#dependencies.metrics.countStreamFailure(code)
  }

  noteAccessEnd(code: AccessEndCode, cause: unknown): void {
    this.#facts.streamFailure = { code, cause }
  }

  describeOpening(): RecordedOpening {
    const { clientAddress = this.#exchange.peerAddress, path, route } = this.#facts
    return { requestId: this.#requestId, clientAddress, path: path && redactPath(path).slice(0, pathLimit), route }
  }

  takeDecision(isOn: boolean, status: number | undefined, error?: GatewayError): AuditedDecision | undefined {
    const findings = this.#findings
    this.#findings = undefined
    if (!findings || !isOn) return undefined
    const verdict = {
      time: this.#dependencies.now(),
      requestId: this.#requestId,
      listener: this.#listener,
      status,
      error,
    }
    const decision = composeDecision(this.#exchange, this.#facts, findings, verdict)
    if (error) this.#decision = decision
    return decision
  }

  static #onEnd(isComplete: boolean, record: FactRecord): void {
    record.#end(isComplete)
  }

  #end(isComplete: boolean): void {
    const { log, metrics, monotonicMs, onRequestEnd } = this.#dependencies
    const exchange = this.#exchange
    const facts = this.#facts
    const route = facts.route ?? noRoute
    const durationMs = monotonicMs() - this.#startedMs
    metrics.countRequest(route, methodLabel(exchange.method), exchange.status, durationMs / 1000)
    metrics.countDecision(route, facts.reason ?? 'abandoned', facts.error?.exactCause ?? 'none')
    const [requestId, listener, decision] = [this.#requestId, this.#listener, this.#decision]
    onRequestEnd?.({ exchange, requestId, listener, facts, decision, durationMs, isComplete })
    const line = composeEntry(exchange, this.#requestId, facts, durationMs, isComplete)
    // A client that left is not a failure; neither is a method that no server here knows (501).
    const isFailure = exchange.status >= 500 && exchange.status !== 501
    if (isBug(facts) || (isFailure && facts.error)) log.error(line, 'request failed')
    else if (facts.streamFailure && isAccessEnd(facts.streamFailure.code)) log.info(line, 'access ended')
    else if (facts.streamFailure) log.warn(line, 'stream failed')
    else log.request(line)
  }
}

const methodLabel = (method: string): string => ((methods as readonly string[]).includes(method) ? method : 'other')

type Verdict = Pick<AuditedDecision, 'time' | 'requestId' | 'listener' | 'status' | 'error'>

function composeDecision(
  exchange: Exchange,
  { clientAddress, route, upstreamPath }: AccessLogFacts,
  { target, principal, evaluator, organization, isPreflight }: Findings,
  verdict: Verdict,
): AuditedDecision {
  return {
    ...verdict,
    outcome: verdict.error ? 'refused' : 'allowed',
    principal,
    evaluator,
    organization,
    ...(isPreflight && { isPreflight }),
    route,
    method: target?.method ?? (verdict.listener === 'public' ? exchange.method : undefined),
    path: target?.path,
    upstreamPath,
    clientAddress: clientAddress ?? exchange.peerAddress,
  }
}
