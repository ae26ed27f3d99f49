import { GatewayError } from './base/errors/gateway-error.ts'
import { type Rendered, render } from './base/errors/render.ts'
import { type Awaitable, andThen } from './base/lib/awaitable.ts'
import type { Directory, KnownUser } from './directory/directory.ts'
import type { UpstreamResult } from './http/engine.ts'
import type { Exchange } from './http/exchange.ts'
import type { Audit } from './observe/audit/audit.ts'
import type { AuditedListener } from './observe/audit/line.ts'
import type { BeginRecord, ObserveRequest, RequestObserver, RequestRecord } from './observe/request-record.ts'
import type { DeclaredOrganizations } from './policy/organizations.ts'
import type { Roles } from './policy/role.ts'
import type { AnswerName, Route } from './policy/route.ts'
import type { Authenticate } from './stages/authenticate/authenticate.ts'
import { type CredentialRules, readCredential } from './stages/authenticate/credential.ts'
import { type Caller, type Decision, decide, enforce, type Permit } from './stages/authorize/decide.ts'
import type { Consult } from './stages/consult/consult.ts'
import type { Cors } from './stages/endpoints/cors.ts'
import type { Answer } from './stages/endpoints/endpoints.ts'
import type { ConfirmedBody, RequestFacts } from './stages/endpoints/request-facts.ts'
import { awaitBody, type Forward, type Received, requireForwardedHead } from './stages/forward/forward.ts'
import type { Limit } from './stages/limit/limit.ts'
import type { Locate } from './stages/locate/locate.ts'
import { isSameRequest, type Upstream } from './stages/locate/upstream.ts'
import type { Pin, PinnedHeaders } from './stages/pin/pin.ts'
import { readClient, type TrustedProxies } from './stages/receive/client.ts'
import { type HeadLimits, requireHead } from './stages/receive/head-limits.ts'
import { readHeaders, requirePlainBody } from './stages/receive/headers.ts'
import { readRequestId } from './stages/receive/request-id.ts'
import { type RequestTarget, readTarget } from './stages/receive/target.ts'
import { routeChanged } from './stages/recheck/judge-again.ts'
import type { OpenExchange } from './stages/recheck/open-exchange.ts'
import type { Recheck } from './stages/recheck/recheck.ts'
import type { Relay, RelayContext } from './stages/relay/relay.ts'
import type { OpenTunnel } from './stages/relay/tunnel.ts'
import { resolveOrganization } from './stages/resolve/organization.ts'
import { resolveResource } from './stages/resolve/resource.ts'
import { MethodNotAllowed, type RouteMatch, type RouteTable } from './stages/route/table.ts'

export type Snapshot = Readonly<{
  table: RouteTable
  routes: readonly Route[]
  roles: Roles
  organizations: DeclaredOrganizations
  locate: Locate
  headLimits: Readonly<Record<'usual' | 'widest', HeadLimits>>
}>

export type Stages = Readonly<{
  snapshot: () => Snapshot
  isTrustedProxy: TrustedProxies
  cors: Cors
  credentials: CredentialRules
  authenticate: Authenticate
  directory: Directory<KnownUser>
  consult: Consult
  limit: Limit
  answer: Answer
  pin: Pin
  audit: Audit
  recheck: Recheck
  forward: Forward
  relay: Relay
  tunnel: OpenTunnel
  beginRecord: BeginRecord
  observe: ObserveRequest
}>

/**
 * Handles one request. Each stage adds one fact or refuses. Results that are not promises are not awaited, so that most
 * requests go from their head to their upstream in one tick of the event loop.
 */
export const createPipeline = (stage: Stages) => {
  const admit = createAdmit(stage, 'public')
  return async function handle(exchange: Exchange): Promise<void> {
    const requestId = readRequestId(exchange.headers)
    const record = stage.beginRecord(exchange, requestId)
    const observer = stage.observe(record, exchange, requestId)
    const heard = stage.recheck.countHeard()
    let open: OpenExchange | undefined
    try {
      const snapshot = stage.snapshot()
      const { widest } = snapshot.headLimits
      stage.cors.decorate(exchange)
      const headers = readHeaders(exchange, widest.headerBytes, stage.credentials.places)
      const client = readClient(exchange, headers, stage.isTrustedProxy)
      observer.onClient(client)
      exchange.account.fromAddress(client.address)
      const target = readTarget(exchange.method, exchange.target, headers.host, widest.targetBytes)
      observer.onTarget(target, headers.host, headers)

      const preflight = stage.cors.answerPreflight(exchange, () => snapshot.table.methodsAt(target, headers.host))
      if (preflight) {
        notePreflight(record, observer)
        await passAudit(stage.audit, record, observer, preflight.status)
        exchange.respond({ ...preflight, headers: [...preflight.headers, 'x-request-id', requestId] }, '')
        return
      }

      const received: Received = { exchange, headers, client, requestId, onCancellable: undefined }
      let permit = admit(received, target, headers.host, snapshot, observer)
      if (permit instanceof Promise) permit = await permit
      const { match } = permit
      if (match.route.destination.kind === 'answer') {
        await passAudit(stage.audit, record, observer)
        const facts = describeRequest(stage, received, target, record, match.route.destination)
        const answer = await stage.answer(match.route.destination.name, permit, snapshot.roles, facts)
        exchange.respond(answer, answer.body)
        return
      }

      let upstream = snapshot.locate(permit, headers.host)
      if (upstream instanceof Promise) upstream = await upstream
      observer.onUpstream(upstream)
      const audited = passForwarded(stage, permit, upstream, received, { record, observer })
      if (audited !== undefined) await audited
      open = stage.recheck.open({ exchange, permit, upstream, host: headers.host, report: record }, heard)
      if (open.isNamed) await requireConfirmed(open, stage.recheck)
      const begun = awaitBegin(open, upstream, received)
      if (begun !== undefined) await begun
      const response = await stage.forward(permit, upstream, pinAtHead(stage, permit, upstream, open), received)
      const passed = passOn(stage, response, exchange, { match, upstream, requestId, observer, open })
      if (passed !== undefined) await passed
    } catch (caught) {
      const refusal = open?.end?.refusal ?? GatewayError.from(caught)
      exchange.willRefuse(refusal.status)
      const told = await auditRefusal(stage.audit, record, observer, refusal)
      if (open?.breaksOff) exchange.reset()
      else refuse(exchange, told, record, requestId)
    }
  }
}

function describeRequest(
  stage: Stages,
  received: Received,
  target: RequestTarget,
  observer: RequestObserver,
  { name }: Readonly<{ name: AnswerName }>,
): RequestFacts {
  const { exchange, headers, client, requestId } = received
  const readBody = async (limitBytes: number): Promise<ConfirmedBody> => {
    requirePlainBody(exchange.headers)
    const bytes = await exchange.body.read(limitBytes)
    const admitUncounted = createAdmit(stage, 'decision')
    const snapshot = stage.snapshot()
    const permit = await admitUncounted(received, target, headers.host, snapshot, observer)
    const { destination } = permit.match.route
    if (destination.kind !== 'answer' || destination.name !== name) throw routeChanged()
    return { bytes, permit, roles: snapshot.roles }
  }
  return { requestId, clientAddress: client.address, search: target.search, readBody }
}

function passOn(
  { tunnel, relay, recheck }: Pick<Stages, 'tunnel' | 'relay' | 'recheck'>,
  response: UpstreamResult,
  exchange: Exchange,
  context: RelayContext & Readonly<{ open: OpenExchange }>,
): Awaitable<void> {
  context.open.releasePermit()
  if ('connection' in response) tunnel(response, exchange, context)
  else return relay(response, exchange, { ...context, confirm: confirmBy(recheck, context.open) })
}

/** During an outage of the directory, what the last facts permit stays permitted for as long as `streams` says. */
const confirmBy =
  (recheck: Recheck, open: OpenExchange): RelayContext['confirm'] =>
  () =>
    open.isNamed || (!open.isStale && recheck.isUnconfirmed(open)) ? recheck.confirm(open) : undefined

/** A change came after the facts of the permit were read, so it is judged again before its first byte goes out. */
async function requireConfirmed(open: OpenExchange, recheck: Recheck): Promise<void> {
  await recheck.confirm(open)
  requireOpen(open)
}

function requireOpen({ end }: OpenExchange): void {
  if (end) throw end.refusal
}

/** A right may end in the very turn in which the body begins, when the wait can't be cancelled any more. */
function awaitBegin(open: OpenExchange, upstream: Upstream, received: Received): Promise<void> | undefined {
  received.onCancellable = cancelledWith(open)
  return awaitBody(upstream, received)?.then(() => requireOpen(open))
}

/**
 * Outside the pipeline, whose variables this closure would keep alive. It is returned, since V8 allocates a function
 * that is written right of `property =` as an old object, which survives until a mark-compact.
 */
const cancelledWith =
  (open: OpenExchange): Received['onCancellable'] =>
  (request) =>
    open.onCancellable(request)

/**
 * Signs when the head is written, from the facts last judged: a body may have begun late, or the connection opened. No
 * change since then is missed, and one confirmation is enough (`rights/confirm-once.ts`).
 */
const pinAtHead =
  (stage: Pick<Stages, 'pin' | 'recheck' | 'snapshot'>, permit: Permit, upstream: Upstream, open: OpenExchange) =>
  (): Awaitable<PinnedHeaders> => {
    if (stage.recheck.isUnconfirmed(open) || open.permit !== permit) return pinJudgedAgain(stage, upstream, open)
    const pinned = stage.pin(permit, upstream)
    if (pinned instanceof Promise) return pinned.then((made) => sent(open, made))
    return sent(open, pinned)
  }

async function pinJudgedAgain(
  stage: Pick<Stages, 'pin' | 'recheck' | 'snapshot'>,
  upstream: Upstream,
  open: OpenExchange,
): Promise<PinnedHeaders> {
  if (stage.recheck.isUnconfirmed(open)) await requireConfirmed(open, stage.recheck)
  const { permit } = open
  // A new table may lead the same request to another path, or without its credentials.
  if (!isSameRequest(await stage.snapshot().locate(permit, open.host), upstream)) throw routeChanged()
  return sent(open, await stage.pin(permit, upstream))
}

function sent(open: OpenExchange, pinned: PinnedHeaders): PinnedHeaders {
  open.noteForwarded()
  return pinned
}

type Admit = (
  received: Received,
  target: RequestTarget,
  host: string,
  snapshot: Snapshot,
  observer: RequestObserver,
) => Awaitable<Permit>

/**
 * Leads from a target to a permit: route, rate limit, authentication, organization, resource, decision, decision points.
 * Both listeners use it, so its order is the order of refusals.
 */
export function createAdmit(
  stage: Pick<Stages, 'credentials' | 'authenticate' | 'directory' | 'consult' | 'limit'>,
  listener: AuditedListener,
): Admit {
  const issue = (permit: Permit, { exchange }: Received, observer: RequestObserver): Permit => {
    observer.onAllowed()
    // A connection of the decision listener belongs to a proxy, which asks for all organizations.
    if (listener === 'public') exchange.account.forOrganization(permit.caller?.organization?.id)
    return permit
  }
  const permit = (decision: Decision, exchange: Exchange): Awaitable<Permit> =>
    decision.isAllowed && decision.pending ? stage.consult(decision.pending, exchange) : enforce(decision)
  const authorize = (
    match: RouteMatch,
    received: Received,
    roles: Roles,
    observer: RequestObserver,
  ): Awaitable<Permit> => {
    if (match.route.isPublic) return issue(enforce(decide(match, undefined, roles)), received, observer)
    const { exchange, headers, client, requestId } = received
    const arrival = { clientAddress: client.address, requestId }
    const { isHandshake } = exchange
    // A proxy's question has a method of its own.
    const asked = { method: match.target.method, isHandshake, isWebSocket: match.route.isWebSocket }
    const credential = readCredential(headers, stage.credentials, asked, client)
    return andThen(stage.authenticate(credential, arrival), (principal) => {
      observer.onPrincipal(principal)
      const organization = resolveOrganization(principal, match, headers)
      observer.onOrganization(organization)
      return andThen(resolveResource(match, organization, stage.directory, headers.passing), (resource) => {
        observer.onResource(resource)
        const caller: Caller = { principal, organization, resource }
        return andThen(permit(decide(match, caller, roles), exchange), (issued) => issue(issued, received, observer))
      })
    })
  }
  const authorizeWithinLimit = async (
    match: RouteMatch,
    received: Received,
    roles: Roles,
    observer: RequestObserver,
  ) => {
    await stage.limit.checkAddress(match, received.client, received.exchange)
    const permit = await authorize(match, received, roles, observer)
    await stage.limit.checkCaller(permit, received.exchange)
    return permit
  }
  return (received, target, host, { table, roles, headLimits }, observer) => {
    const match = table.match(target, host)
    observer.onMatch(match)
    requireHead(received.headers, target, match.route.headLimits, headLimits.usual)
    return isCounted(match.route, listener)
      ? authorizeWithinLimit(match, received, roles, observer)
      : authorize(match, received, roles, observer)
  }
}

/** A request for an endpoint of the gateway reaches the public listener after its decision and is counted there. */
const isCounted = ({ rateLimit, destination }: Route, listener: AuditedListener): boolean =>
  rateLimit !== undefined && (listener === 'public' || destination.kind !== 'answer')

export function notePreflight(record: RequestRecord, observer: RequestObserver): void {
  record.notePreflight()
  observer.onAllowed()
}

/**
 * The audit gate. With `audit.onFull: wait` a request proceeds only after its decision is recorded, and is refused if
 * that fails. The status is known only if the gateway itself responds.
 */
export function passAudit(
  audit: Audit,
  record: RequestRecord,
  observer: RequestObserver,
  status?: number,
): Promise<void> | undefined {
  observer.onSettled()
  const decision = record.takeDecision(audit.isOn, status)
  return decision && audit.record(decision)
}

/** Measures a head before the audit, which would otherwise tell of a request that was let through. */
function passForwarded(
  { pin, audit }: Pick<Stages, 'pin' | 'audit'>,
  permit: Permit,
  upstream: Upstream,
  received: Received,
  { record, observer }: Readonly<{ record: RequestRecord; observer: RequestObserver }>,
): Awaitable<void> {
  const { headLimitBytes } = upstream
  if (headLimitBytes === undefined) return passAudit(audit, record, observer)
  return andThen(pin(permit, upstream), (pinned) => {
    requireForwardedHead(permit, upstream, headLimitBytes, pinned, received)
    return passAudit(audit, record, observer)
  })
}

export async function auditRefusal(
  audit: Audit,
  record: RequestRecord,
  observer: RequestObserver,
  refusal: GatewayError,
): Promise<GatewayError> {
  observer.onRefusal(refusal)
  try {
    // Recent refusals are kept for the console even if the audit is off.
    const decision = record.takeDecision(true, refusal.status, refusal)
    if (decision) await audit.record(decision)
    return refusal
  } catch (caught) {
    const told = GatewayError.from(caught)
    observer.onUnrecorded(told)
    return told
  }
}

export const renderRefusal = (error: GatewayError, record: RequestRecord, requestId: string): Rendered =>
  render(error, error instanceof MethodNotAllowed ? error.surface : record.surface, requestId)

/** After the head is sent, the connection must break, so that the response cannot pass for complete. */
function refuse(exchange: Exchange, error: GatewayError, record: RequestRecord, requestId: string): void {
  if (exchange.hasStarted) {
    exchange.destroy()
    return
  }
  const refusal = renderRefusal(error, record, requestId)
  exchange.respond(refusal, refusal.body)
}
