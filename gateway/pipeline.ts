import type { Authenticate } from './authenticate/authenticate.ts'
import { readCredential } from './authenticate/credential.ts'
import { type Caller, decide, enforce, type Permit } from './authorize/decide.ts'
import type { Arrival, Directory } from './directory/directory.ts'
import type { Cors } from './endpoints/cors.ts'
import type { Answer } from './endpoints/endpoints.ts'
import type { Exchange } from './engine/exchange.ts'
import { GatewayError } from './errors/gateway-error.ts'
import { render } from './errors/render.ts'
import type { Surface } from './errors/surface.ts'
import type { Forward } from './forward/forward.ts'
import { type Awaitable, andThen } from './lib/awaitable.ts'
import type { Limit } from './limit/limit.ts'
import type { Locate } from './locate/locate.ts'
import type { BeginTrail, Trail } from './observe/trail.ts'
import type { Pin } from './pin/pin.ts'
import type { Roles } from './policy/role.ts'
import { readClient, type TrustedProxies } from './receive/client.ts'
import { type HeadLimits, requireHead } from './receive/head-limits.ts'
import { type RequestHeaders, readHeaders } from './receive/headers.ts'
import { readRequestId } from './receive/request-id.ts'
import { readTarget } from './receive/target.ts'
import type { Join } from './relay/join.ts'
import type { Relay } from './relay/relay.ts'
import { resolveOrganization } from './resolve/organization.ts'
import { resolveResource } from './resolve/resource.ts'
import { MethodNotAllowed, type RouteMatch, type RouteTable } from './route/table.ts'

/** What a reload replaces, whole. A request takes one and keeps it. */
export type Snapshot = Readonly<{
  table: RouteTable
  roles: Roles
  locate: Locate
  headLimits: Readonly<Record<'usual' | 'widest', HeadLimits>>
}>

export type Stages = Readonly<{
  snapshot: () => Snapshot
  isTrustedProxy: TrustedProxies
  cors: Cors
  authenticate: Authenticate
  directory: Directory
  limit: Limit
  answer: Answer
  pin: Pin
  forward: Forward
  relay: Relay
  join: Join
  beginTrail: BeginTrail
}>

/**
 * The way of one request. Every stage adds one fact; the first that cannot, refuses. What a stage has at hand is not
 * waited for: most requests go from their head to their upstream in one turn of the event loop.
 */
export const createPipeline = (stage: Stages) =>
  async function handle(exchange: Exchange): Promise<void> {
    const requestId = readRequestId(exchange.headers)
    const trail = stage.beginTrail(exchange, requestId)
    let surface: Surface = 'platform'
    try {
      const { table, roles, locate, headLimits } = stage.snapshot()
      stage.cors.attend(exchange)
      const headers = readHeaders(exchange, headLimits.widest.headerBytes)
      const client = readClient(exchange, headers, stage.isTrustedProxy)
      trail.received(client)
      exchange.account.fromAddress(client.address)
      const target = readTarget(exchange.method, exchange.target, headers.host, headLimits.widest.targetBytes)
      trail.targeted(target, headers.host, headers)

      const preflight = stage.cors.answerPreflight(exchange, () => table.methodsAt(target, headers.host))
      if (preflight) {
        trail.allowed()
        await trail.settled(preflight.status)
        exchange.answer({ ...preflight, headers: [...preflight.headers, 'x-request-id', requestId] }, '')
        return
      }

      const match = table.match(target, headers.host)
      surface = match.route.surface
      trail.matched(match)
      requireHead(headers, target, match.route.headLimits, headLimits.usual)

      if (match.route.rateLimit) await stage.limit.attend(match, client, exchange)
      let permit = authorize(match, headers, { clientAddress: client.address, requestId }, roles, stage, trail)
      if (permit instanceof Promise) permit = await permit
      trail.allowed()
      exchange.account.forOrganization(permit.caller?.organization?.id)
      if (match.route.rateLimit) await stage.limit.spend(permit, exchange)
      const { destination } = match.route
      if (destination.kind === 'answer') {
        await trail.settled()
        const { search } = target
        const facts = { requestId, clientAddress: client.address, search, body: exchange.body }
        const answer = await stage.answer(destination.name, permit, roles, facts)
        exchange.answer(answer, answer.body)
        return
      }

      let upstream = locate(permit, headers.host)
      if (upstream instanceof Promise) upstream = await upstream
      trail.located(upstream)
      let pinned = stage.pin(permit, upstream)
      if (pinned instanceof Promise) pinned = await pinned
      const settled = trail.settled()
      if (settled !== undefined) await settled
      const response = await stage.forward(permit, upstream, pinned, { exchange, headers, client, requestId })
      const context = { match, upstream, requestId, trail }
      if ('connection' in response) stage.join(response, exchange, context)
      else {
        const relayed = stage.relay(response, exchange, context)
        if (relayed !== undefined) await relayed
      }
    } catch (caught) {
      const refusal = GatewayError.from(caught)
      exchange.announce(refusal.status)
      const error = await trail.refused(refusal)
      refuse(exchange, error, error instanceof MethodNotAllowed ? error.surface : surface, requestId)
    }
  }

/** From a route to a permit: the only way to one, whichever door a request came through. */
export function authorize(
  match: RouteMatch,
  headers: RequestHeaders,
  arrival: Arrival,
  roles: Roles,
  stage: Pick<Stages, 'authenticate' | 'directory'>,
  trail: Trail,
): Awaitable<Permit> {
  if (match.route.isPublic) return enforce(decide(match, undefined, roles))
  return andThen(stage.authenticate(readCredential(headers), arrival), (principal) => {
    trail.authenticated(principal)
    const organization = resolveOrganization(principal, match, headers)
    trail.resolved(organization)
    return andThen(resolveResource(match, stage.directory), (resource) => {
      trail.found(resource)
      const caller: Caller = { principal, organization, resource }
      return enforce(decide(match, caller, roles))
    })
  })
}

/** A refusal after the head went out can only be a broken connection: it must not pass for a complete answer. */
function refuse(exchange: Exchange, error: GatewayError, surface: Surface, requestId: string): void {
  if (exchange.hasStarted) {
    exchange.destroy()
    return
  }
  const refusal = render(error, surface, requestId)
  exchange.answer(refusal, refusal.body)
}
