// The upstream’s response, passed on to the client. A broken event stream is closed with a failure event.
import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { StreamRules } from '../../base/errors/surface.ts'
import type { Awaitable } from '../../base/lib/awaitable.ts'
import { UnorderedList } from '../../base/lib/unordered-list.ts'
import type { BodyEnd, ResponseSink, UpstreamError, UpstreamResponse } from '../../http/engine.ts'
import type { Exchange, RawHeaders, ResponseHead, ResponseWriter } from '../../http/exchange.ts'
import type { Upstream } from '../locate/upstream.ts'
import type { RouteMatch } from '../route/table.ts'
import {
  type AnswerContext,
  findHeader,
  passingLines,
  readMediaType,
  tellsOfEvents,
  withoutHeader,
} from './answer-headers.ts'
import { EventStreamRelay, type StreamObserver, type StreamSettings } from './event-stream.ts'
import { PlainEventStream } from './plain-stream.ts'
import type { StartTimer } from './timer.ts'

export type RelayContext = Readonly<{
  match: RouteMatch
  upstream: Upstream
  requestId: string
  observer: AnswerContext['observer'] & StreamObserver
  open?: StreamHolder
  confirm?: (() => Promise<void> | undefined) | undefined
}>

export type StreamHolder = { stream: Pick<EventStreamRelay, 'endAccess'> | undefined }

/** Settles when the head of the response is sent. Until then it throws, or rejects with, the error to send instead. */
export type Relay = (response: UpstreamResponse, exchange: Exchange, context: RelayContext) => Awaitable<void>

export type RelayOptions = Readonly<{
  keepAliveMs: number
  startTimer: StartTimer
  now: () => Date
  makeId: () => string
}>

export type Relaying = Readonly<{
  relay: Relay
  countStreams: () => number
  drainStreams: () => number
}>

/** SPEC section 6. A base64 image of 12 MiB fits; each worker holds unfinished events within `limits.heldBytes`. */
const eventLimitBytes = 16 * 1024 * 1024

export function createRelay(options: RelayOptions): Relaying {
  const streams = new UnorderedList<EventStreamRelay>()
  const settings: StreamSettings = { ...options, eventLimitBytes, open: streams }
  let isDraining = false

  const watch = (response: UpstreamResponse, exchange: Exchange, head: ResponseHead, context: RelayContext) =>
    new Promise<void>((onStarted, onRefused) => {
      const { resume, abort } = response
      const stream = new EventStreamRelay({ resume, abort }, exchange, settings, {
        rules: readStreamRules(context.match),
        head,
        confirm: context.confirm ?? (() => undefined),
        onStarted,
        onRefused,
        observer: context.observer,
      })
      if (context.open) context.open.stream = stream
      if (isDraining) stream.drain()
      else response.pipe(stream, context.upstream.timeouts.streamIdleMs)
    })

  return {
    relay: (response, exchange, context) => {
      const { status, reason } = response
      const headers = passingLines(status, response.headers, context)
      if (context.match.route.surface !== 'model') {
        const isEventStream = isWatchable(response, exchange)
        const head = { status, reason, headers }
        return isEventStream
          ? keepOpen(response, exchange, head, context, options)
          : passOn(response, exchange, head, context)
      }
      if (status >= 500 && !isJson(headers)) throw toRefusal(response)
      if (isWatchable(response, exchange)) {
        // The gateway may append an event, so the upstream's Content-Length does not hold.
        return watch(response, exchange, { status, reason, headers: withoutHeader(headers, 'content-length') }, context)
      }
      return passOn(
        response,
        exchange,
        { status, reason, headers: status === 409 ? withoutRetry(headers) : headers },
        context,
      )
    },
    countStreams: () => streams.size,
    drainStreams: () => {
      isDraining = true
      const count = streams.size
      for (const stream of streams) stream.drain()
      return count
    },
  }
}

function keepOpen(
  response: UpstreamResponse,
  exchange: Exchange,
  head: ResponseHead,
  context: RelayContext,
  { startTimer, keepAliveMs }: RelayOptions,
): void {
  const { route } = context.match
  const { streamIdleMs } = context.upstream.timeouts
  if (route.destination.kind !== 'upstream' || !route.isKeptAlive) {
    passOn(response, exchange, head, context, streamIdleMs)
    return
  }
  const headers = withoutHeader(head.headers, 'content-length')
  const writer = startAnswer(response, exchange, { ...head, headers })
  const stream = new PlainEventStream(writer, exchange, response.resume, { startTimer, keepAliveMs })
  response.pipe(new GuardedSink(stream, response.abort, exchange, context.observer), streamIdleMs)
}

function passOn(
  response: UpstreamResponse,
  exchange: Exchange,
  head: ResponseHead,
  context: RelayContext,
  idleMs?: number,
): void {
  const writer = startAnswer(response, exchange, head)
  writer.onDrain(response.resume)
  const sink = new PassingSink(writer, exchange)
  response.pipe(new GuardedSink(sink, response.abort, exchange, context.observer), idleMs)
}

function startAnswer(response: UpstreamResponse, exchange: Exchange, head: ResponseHead): ResponseWriter {
  try {
    return exchange.startResponse(head)
  } catch (error) {
    response.abort()
    throw error
  }
}

/** A compressed stream passes unchanged: its events cannot be read, and `stages/forward/` did not ask for compression. */
function isWatchable({ status, headers }: UpstreamResponse, { method }: Exchange): boolean {
  const hasBody = method !== 'HEAD' && status >= 200 && status < 300 && status !== 204 && status !== 205
  return hasBody && tellsOfEvents(headers) && isPlain(headers)
}

/** Content codings that change no byte. Workers send `none` or a charset to keep their frameworks from compressing. */
const plainCodings: ReadonlySet<string> = new Set(['', 'identity', 'none', 'utf-8', 'utf8'])

function isPlain(headers: RawHeaders): boolean {
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index]?.toLowerCase() !== 'content-encoding') continue
    const codings = (headers[index + 1] ?? '').toLowerCase().split(',')
    if (!codings.every((coding) => plainCodings.has(coding.trim()))) return false
  }
  return true
}

const isJson = (headers: RawHeaders): boolean =>
  /^application\/(?:[a-z0-9!#$&^_.+-]+\+)?json$/.test(readMediaType(headers) ?? '')

/** Clients of the model API would lose the message of an HTML page. */
function toRefusal(response: UpstreamResponse): GatewayError {
  response.abort()
  const { status, headers } = response
  const retryAfter = findHeader(headers, 'retry-after')
  return new GatewayError('upstream_error', { status, ...(retryAfter !== undefined && { retryAfter }) })
}

/** The clients' SDKs retry a 409 unless this header forbids it. */
const withoutRetry = (headers: RawHeaders): RawHeaders => [
  ...withoutHeader(headers, 'x-should-retry'),
  'x-should-retry',
  'false',
]

class PassingSink implements ResponseSink {
  readonly #writer: ResponseWriter
  readonly #exchange: Exchange

  constructor(writer: ResponseWriter, exchange: Exchange) {
    this.#writer = writer
    this.#exchange = exchange
  }

  data(chunk: Buffer): boolean {
    return this.#writer.write(chunk)
  }

  end(): void {
    this.#writer.end()
  }

  /** A truncated response must stay recognizable: no terminating chunk, no padding up to the length. */
  fail(): void {
    this.#exchange.destroy()
  }
}

/**
 * A sink whose callbacks never throw: the caller serves other responses too and could not handle the error. It holds
 * neither the response's head nor the request's facts, since a body may last for hours.
 */
class GuardedSink implements ResponseSink {
  readonly #sink: ResponseSink
  readonly #abort: () => void
  readonly #exchange: Exchange
  readonly #observer: Pick<StreamObserver, 'onBug'>

  constructor(sink: ResponseSink, abort: () => void, exchange: Exchange, observer: Pick<StreamObserver, 'onBug'>) {
    this.#sink = sink
    this.#abort = abort
    this.#exchange = exchange
    this.#observer = observer
  }

  data(chunk: Buffer): boolean {
    try {
      return this.#sink.data(chunk)
    } catch (error) {
      this.#breakOff(error)
      return false
    }
  }

  end(how: BodyEnd): void {
    try {
      this.#sink.end(how)
    } catch (error) {
      this.#breakOff(error)
    }
  }

  fail(error: UpstreamError): void {
    try {
      this.#sink.fail(error)
    } catch (fault) {
      this.#breakOff(fault)
    }
  }

  #breakOff(error: unknown): void {
    this.#abort()
    this.#exchange.destroy()
    this.#observer.onBug(error)
  }
}

function readStreamRules({ route, target }: RouteMatch): StreamRules {
  if (route.stream !== undefined) return route.stream
  const [last, beforeLast] = [target.segments.at(-1), target.segments.at(-2)]
  return { kind: beforeLast === 'chat' && last === 'completions' ? 'chat' : 'responses', end: 'marker' }
}
