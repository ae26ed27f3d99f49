import { GatewayError } from '../errors/gateway-error.ts'
import type { StreamKind } from '../errors/surface.ts'
import type { ResponseSink, UpstreamError, UpstreamResponse } from '../http/engine.ts'
import type { Exchange, RawHeaders, ResponseHead, ResponseWriter } from '../http/exchange.ts'
import type { Awaitable } from '../lib/awaitable.ts'
import { UnorderedList } from '../lib/unordered-list.ts'
import type { Upstream } from '../locate/upstream.ts'
import type { RouteMatch } from '../route/table.ts'
import { type AnswerContext, findHeader, passingLines, readMediaType, withoutHeader } from './answer-headers.ts'
import { EventStreamRelay, type StreamObserver, type StreamSettings } from './event-stream.ts'
import type { StartTimer } from './timer.ts'

/** What the relay must know of the request that is answered. */
export type RelayContext = Readonly<{
  match: RouteMatch
  upstream: Upstream
  requestId: string
  observer: AnswerContext['observer'] & StreamObserver
}>

/** Done when the head of an answer is out; until then it throws, or rejects with, what goes out instead. */
export type Relay = (response: UpstreamResponse, exchange: Exchange, context: RelayContext) => Awaitable<void>

export type RelayOptions = Readonly<{
  /** SPEC section 6: quiet before a comment, and how long a head is held for its first event. */
  keepAliveMs: number
  startTimer: StartTimer
  now: () => Date
  makeId: () => string
}>

export type Relaying = Readonly<{
  relay: Relay
  countStreams: () => number
  /** Ends every stream, now and from now on; says how many were open. */
  drainStreams: () => number
}>

const eventLimitBytes = 16 * 1024 * 1024

/** The last stage: answers pass as they come, and event streams of the model surface are watched over. */
export function createRelay(options: RelayOptions): Relaying {
  const streams = new UnorderedList<EventStreamRelay>()
  const settings: StreamSettings = { ...options, eventLimitBytes, open: streams }
  let isDraining = false

  const watch = (response: UpstreamResponse, exchange: Exchange, head: ResponseHead, context: RelayContext) =>
    new Promise<void>((onStarted, onRefused) => {
      const { resume, abort } = response
      const stream = new EventStreamRelay({ resume, abort }, exchange, settings, {
        kind: readStreamKind(context.match),
        head,
        onStarted,
        onRefused,
        observer: context.observer,
      })
      if (isDraining) stream.drain()
      else response.pipe(stream, context.upstream.timeouts.streamIdleMs)
    })

  return {
    relay: (response, exchange, context) => {
      const { status, reason } = response
      const headers = passingLines(status, response.headers, context)
      if (context.match.route.surface !== 'model')
        return passOn(response, exchange, { status, reason, headers }, context)
      if (status >= 500 && !isJson(headers)) throw toRefusal(response)
      if (isWatchable(response, exchange)) {
        // The stream may get an event of ours: its length is not for the upstream to say.
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

/** Passes an upstream's answer on as it comes, at the pace of the slower side. */
function passOn(response: UpstreamResponse, exchange: Exchange, head: ResponseHead, context: RelayContext): void {
  const writer = startAnswer(response, exchange, head)
  writer.onDrain(response.resume)
  const sink = {
    data: writer.write,
    end: writer.end,
    // A truncated answer must stay recognizable: no terminating chunk, no filled-up length.
    fail: () => exchange.destroy(),
  }
  const guarded = new GuardedSink(sink, (error) => {
    breakOff(response, exchange)
    context.observer.onBug(error)
  })
  response.pipe(guarded)
}

function breakOff(response: UpstreamResponse, exchange: Exchange): void {
  response.abort()
  exchange.destroy()
}

/** A head that the engine refuses to write must not leave the upstream's body waiting for a reader. */
function startAnswer(response: UpstreamResponse, exchange: Exchange, head: ResponseHead): ResponseWriter {
  try {
    return exchange.startResponse(head)
  } catch (error) {
    response.abort()
    throw error
  }
}

/** A compressed stream passes as it is: its events cannot be seen, and we asked for none (`forward/`). */
function isWatchable({ status, headers }: UpstreamResponse, { method }: Exchange): boolean {
  const hasBody = method !== 'HEAD' && status >= 200 && status < 300 && status !== 204 && status !== 205
  return hasBody && readMediaType(headers) === 'text/event-stream' && isPlain(headers)
}

/** Codings that change no byte; workers say `none` or a charset so that their frameworks compress nothing. */
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

/** A page of HTML would lose its message in the clients of the model API. */
function toRefusal(response: UpstreamResponse): GatewayError {
  response.abort()
  const { status, headers } = response
  const retryAfter = findHeader(headers, 'retry-after')
  return new GatewayError('upstream_error', { status, ...(retryAfter !== undefined && { retryAfter }) })
}

/** The clients' SDKs try a 409 again unless they are told not to. */
const withoutRetry = (headers: RawHeaders): RawHeaders => [
  ...withoutHeader(headers, 'x-should-retry'),
  'x-should-retry',
  'false',
]

/** A sink in the guise of another, of which no callback throws: whoever calls knows nothing of this answer. */
class GuardedSink implements ResponseSink {
  readonly #sink: ResponseSink
  readonly #onFault: (error: unknown) => void

  constructor(sink: ResponseSink, onFault: (error: unknown) => void) {
    this.#sink = sink
    this.#onFault = onFault
  }

  data(chunk: Buffer): boolean {
    try {
      return this.#sink.data(chunk)
    } catch (error) {
      this.#onFault(error)
      return false
    }
  }

  end(): void {
    try {
      this.#sink.end()
    } catch (error) {
      this.#onFault(error)
    }
  }

  fail(error: UpstreamError): void {
    try {
      this.#sink.fail(error)
    } catch (fault) {
      this.#onFault(fault)
    }
  }
}

/** What the route says its streams speak; else the path does, in the model API's own convention. */
function readStreamKind({ route, target }: RouteMatch): StreamKind {
  if (route.stream !== undefined) return route.stream
  const [last, beforeLast] = [target.segments.at(-1), target.segments.at(-2)]
  return beforeLast === 'chat' && last === 'completions' ? 'chat' : 'responses'
}
