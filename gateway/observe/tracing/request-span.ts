import type { Span, SpanStatusCode } from '@opentelemetry/api'
import type { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Exchange } from '../../http/exchange.ts'
import { methods } from '../../policy/route.ts'
import type { RouteMatch } from '../../stages/route/table.ts'
import type { AuditedListener } from '../audit/line.ts'
import { redactPath } from '../log/redact.ts'
import type { RequestObserver } from '../request-record.ts'
import { pathLimit } from './call-attributes.ts'

type SpanFacts = Readonly<{ listener: AuditedListener; requestId: string; errorStatus: SpanStatusCode }>

export function followRequest(
  next: RequestObserver,
  exchange: Exchange,
  span: Span,
  facts: SpanFacts,
): RequestObserver {
  describeStart(span, exchange, facts)
  let failure: string | undefined
  exchange.onEnd((isComplete) => endSpan(span, exchange, { isComplete, failure, errorStatus: facts.errorStatus }))
  const tellRefusal = ({ code, status }: GatewayError): void => {
    span.setAttribute('sallyport.reason', code)
    if (status >= 500) failure = code
  }
  return {
    onResource: (resource) => next.onResource(resource),
    onUpstream: (upstream) => next.onUpstream(upstream),
    onSettled: () => next.onSettled(),
    onUpstreamRequestId: (id) => next.onUpstreamRequestId(id),
    onBug: (error) => next.onBug(error),
    onClient: (client) => {
      span.setAttributes({ 'client.address': client.address, 'url.scheme': client.proto })
      next.onClient(client)
    },
    onTarget: (target, host, headers) => {
      span.setAttribute('server.address', host.replace(/:\d+$/, ''))
      next.onTarget(target, host, headers)
    },
    onMatch: (match) => {
      describeMatch(span, match)
      next.onMatch(match)
    },
    onPrincipal: (principal) => {
      span.setAttribute('sallyport.credential', principal.credential.kind)
      next.onPrincipal(principal)
    },
    onOrganization: (organization) => {
      if (organization) span.setAttribute('sallyport.organization_id', organization.id)
      next.onOrganization(organization)
    },
    onAllowed: () => {
      span.setAttribute('sallyport.decision', 'allowed')
      next.onAllowed()
    },
    onRefusal: (error) => {
      next.onRefusal(error)
      tellRefusal(error)
    },
    onUnrecorded: (error) => {
      next.onUnrecorded(error)
      tellRefusal(error)
    },
    onStreamFailure: (code, cause) => {
      failure = code
      next.onStreamFailure(code, cause)
    },
  }
}

function describeMatch(span: Span, { route, target }: RouteMatch): void {
  span.updateName(`${target.method} ${route.path}`)
  span.setAttributes({
    'http.request.method': target.method,
    'http.route': route.path,
    'url.path': redactPath(target.path).slice(0, pathLimit),
    'sallyport.route': route.id,
  })
}

function describeStart(span: Span, exchange: Exchange, { listener, requestId }: SpanFacts): void {
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
  // A refusal is a valid response; only server faults mark a server span as an error.
  const error = failure ?? (status >= 500 ? String(status) : undefined)
  if (error !== undefined) {
    span.setAttribute('error.type', error)
    span.setStatus({ code: errorStatus })
  }
  span.end()
}
