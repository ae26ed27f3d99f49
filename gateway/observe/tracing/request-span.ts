import type { Span, SpanStatusCode } from '@opentelemetry/api'
import type { GatewayError } from '../../errors/gateway-error.ts'
import type { Exchange } from '../../http/exchange.ts'
import { methods } from '../../policy/route.ts'
import type { AuditedListener } from '../audit/line.ts'
import { redact } from '../log/redact.ts'
import type { Trail } from '../trail.ts'
import { pathLimit } from './call-attributes.ts'

type RequestFacts = Readonly<{ listener: AuditedListener; requestId: string; errorStatus: SpanStatusCode }>

/** Writes what the trail hears into a span, by the semantic conventions for HTTP servers, and ends it with the exchange. */
export function followRequest(trail: Trail, exchange: Exchange, span: Span, facts: RequestFacts): Trail {
  const { errorStatus } = facts
  describeStart(span, exchange, facts)
  let failure: string | undefined
  exchange.onEnd((isComplete) => endSpan(span, exchange, { isComplete, failure, errorStatus }))
  const tellRefusal = ({ code, status }: GatewayError): void => {
    span.setAttribute('sallyport.reason', code)
    if (status >= 500) failure = code
  }
  return {
    found: (resource) => trail.found(resource),
    located: (upstream) => trail.located(upstream),
    settled: () => trail.settled(),
    identified: (upstreamRequestId) => trail.identified(upstreamRequestId),
    broke: (error) => trail.broke(error),
    received: (client) => {
      span.setAttributes({ 'client.address': client.address, 'url.scheme': client.proto })
      trail.received(client)
    },
    targeted: (target, host, headers) => {
      span.setAttribute('server.address', host.replace(/:\d+$/, ''))
      trail.targeted(target, host, headers)
    },
    matched: (match) => {
      const { route, target } = match
      span.updateName(`${target.method} ${route.path}`)
      span.setAttributes({
        'http.request.method': target.method,
        'http.route': route.path,
        'url.path': redact(target.path).slice(0, pathLimit),
        'sallyport.route': route.id,
      })
      trail.matched(match)
    },
    authenticated: (principal) => {
      span.setAttribute('sallyport.credential', principal.proof.kind)
      trail.authenticated(principal)
    },
    resolved: (organization) => {
      if (organization) span.setAttribute('sallyport.organization_id', organization.id)
      trail.resolved(organization)
    },
    allowed: () => {
      span.setAttribute('sallyport.decision', 'allowed')
      trail.allowed()
    },
    refused: (error) => {
      trail.refused(error)
      tellRefusal(error)
    },
    unrecorded: (error) => {
      trail.unrecorded(error)
      tellRefusal(error)
    },
    streamFailed: (code, cause) => {
      failure = code
      trail.streamFailed(code, cause)
    },
  }
}

function describeStart(span: Span, exchange: Exchange, { listener, requestId }: RequestFacts): void {
  span.setAttributes({
    'http.request.method': (methods as readonly string[]).includes(exchange.method) ? exchange.method : '_OTHER',
    'network.protocol.version': exchange.httpVersion,
    'sallyport.listener': listener,
    'sallyport.request_id': requestId,
  })
}

type Outcome = Readonly<{ isComplete: boolean; failure: string | undefined; errorStatus: SpanStatusCode }>

function endSpan(span: Span, { status }: Exchange, { isComplete, failure, errorStatus }: Outcome): void {
  if (status > 0) span.setAttribute('http.response.status_code', status)
  if (!isComplete) span.setAttribute('sallyport.incomplete', true)
  // A refusal is an answer; only what is the server's fault is an error of the server's span.
  const error = failure ?? (status >= 500 ? String(status) : undefined)
  if (error !== undefined) {
    span.setAttribute('error.type', error)
    span.setStatus({ code: errorStatus })
  }
  span.end()
}
