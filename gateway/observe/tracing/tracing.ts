// Traces, made only when the SDK of OpenTelemetry is loaded beside the gateway.
import type * as Api from '@opentelemetry/api'
import type { RefusalCause, RefusalCode } from '../../base/errors/gateway-error.ts'
import type { Exchange, RawHeaders } from '../../http/exchange.ts'
import { findTraceContext, type TraceContext } from '../../stages/receive/trace-context.ts'
import type { AuditedListener } from '../audit/line.ts'
import type { Log } from '../log/log.ts'
import type { ObserveRequest } from '../request-record.ts'
import { describeCall, type OutgoingCall } from './call-attributes.ts'
import { followRequest } from './request-span.ts'
import { type RunningSdk, startSdk } from './sdk.ts'

export type TracedCall = Readonly<{
  headers: RawHeaders
  answered: (status: number) => void
  failed: (code: RefusalCode) => void
}>

export type TracedQuestion = Readonly<{
  answered: (isYes: boolean) => void
  failed: (cause: RefusalCause) => void
}>

export type Tracing = Readonly<{
  observe: (listener: AuditedListener) => ObserveRequest
  beginCall: (exchange: Exchange, call: OutgoingCall) => TracedCall | undefined
  beginQuestion: (exchange: object, pdp: string) => TracedQuestion | undefined
  stop: (withinMs: number) => Promise<void>
}>

export async function openTracing(
  environment: Readonly<Record<string, string | undefined>>,
  version: string,
  log: Log,
): Promise<Tracing | undefined> {
  const sdk = await startSdk(environment, version, log)
  return sdk && createTracing(sdk)
}

export function createTracing({ api, tracer, shutdown }: RunningSdk): Tracing {
  // By exchange: an exchange that is gone takes its context along.
  const contexts = new WeakMap<object, Api.Context>()
  const fail = (span: Api.Span, code: string): void => {
    span.setAttribute('error.type', code)
    span.setStatus({ code: api.SpanStatusCode.ERROR })
    span.end()
  }
  return {
    observe: (listener) => (observer, exchange, requestId) => {
      const parent = readParent(api, findTraceContext(exchange.headers))
      const span = tracer.startSpan('request', { kind: api.SpanKind.SERVER }, parent)
      contexts.set(exchange, api.trace.setSpan(parent, span))
      const facts = { listener, requestId, errorStatus: api.SpanStatusCode.ERROR }
      return followRequest(observer, exchange, span, facts)
    },
    beginQuestion: (exchange, pdp) => {
      const context = contexts.get(exchange)
      if (!context) return undefined
      const attributes = { 'sallyport.pdp': pdp }
      const span = tracer.startSpan('decision', { kind: api.SpanKind.CLIENT, attributes }, context)
      return {
        answered: (isYes) => {
          span.setAttribute('sallyport.pdp_decision', isYes)
          span.end()
        },
        failed: (cause) => fail(span, cause),
      }
    },
    beginCall: (exchange, call) => {
      const context = contexts.get(exchange)
      if (!context) return undefined
      const { name, attributes } = describeCall(call)
      const span = tracer.startSpan(name, { kind: api.SpanKind.CLIENT, attributes }, context)
      return {
        headers: writeContext(span.spanContext()),
        answered: (status) => {
          span.setAttribute('http.response.status_code', status)
          if (status >= 400) {
            span.setAttribute('error.type', String(status))
            span.setStatus({ code: api.SpanStatusCode.ERROR })
          }
          span.end()
        },
        failed: (code) => fail(span, code),
      }
    },
    stop: async (withinMs) => {
      // A collector that does not answer must not hold up the end of the process.
      let timer: NodeJS.Timeout | undefined
      const patience = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, withinMs)
      })
      await Promise.race([shutdown().catch(() => undefined), patience])
      clearTimeout(timer)
    },
  }
}

function readParent(api: typeof Api, found: TraceContext | undefined): Api.Context {
  if (!found) return api.ROOT_CONTEXT
  const [, traceId = '', spanId = '', flags = ''] = found.traceparent.split('-')
  const state = found.tracestate.join(',')
  return api.trace.setSpanContext(api.ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(state !== '' && { traceState: api.createTraceState(state) }),
  })
}

function writeContext({ traceId, spanId, traceFlags, traceState }: Api.SpanContext): RawHeaders {
  const flags = (traceFlags & 0xff).toString(16).padStart(2, '0')
  const state = traceState?.serialize() ?? ''
  const lines = ['traceparent', `00-${traceId}-${spanId}-${flags}`]
  return state === '' ? lines : [...lines, 'tracestate', state]
}
