// The HTTP/1.1 engine: TCP, TLS and llhttp on both sides. The stages see this interface and exchange.ts.
import type { PlainCode } from '../base/errors/gateway-error.ts'
import type { Awaitable } from '../base/lib/awaitable.ts'
import type { Exchange, MemoryAccount, RawHeaders, RequestBody, UpgradedConnection } from './exchange.ts'
import type { PreparedHeaders } from './prepared-headers.ts'
import type { UpstreamTls } from './tls/client.ts'
import type { ListenerTls, ServerIdentity } from './tls/server.ts'
import type { Networks } from './upstream/networks.ts'

export type { UpstreamTls } from './tls/client.ts'
export type { Networks } from './upstream/networks.ts'
export { measureRequestHead } from './upstream/request-head.ts'

export type ListenerOptions = Readonly<{
  host: string
  port: number
  tls?: ListenerTls | undefined
  /** Time for a request's head to arrive, from its first byte or from the connection's start. */
  headersTimeoutMs: number
  /** Time between the end of a response and the first byte of the next request. */
  keepAliveMs: number
  bodyIdleTimeoutMs: number
  minBodyBytesPerSecond: number
  /** Time for a whole request, with its body, from the same moment as its head. */
  requestTimeoutMs?: number
  /** Reports WebSocket handshakes as such, instead of as requests like any other. */
  takesHandshakes?: boolean
  /** Time and average rate at which a client must take a waiting response. At a rate of 0 one byte is enough. */
  clientIdleTimeoutMs: number
  minResponseBytesPerSecond: number
  maxConnections: number
  /** Whether connections that brought no whole request give way to new ones, instead of keeping them out. */
  displacesIdle?: boolean
  onMalformed: (refusal: MalformedRequest) => void
  onDropped: (reason: DropReason) => void
  onFault: (error: unknown) => void
}>

export type DropReason = 'limit' | 'displaced' | 'stalled' | 'handshake' | 'memory'

export type MalformedRequest = Readonly<{
  code: PlainCode
  requestId: string
  peerAddress: string
  /** Whether the head was read before and only the body is malformed. */
  isBody: boolean
}>

export type Listener = Readonly<{
  address: Readonly<{ host: string; port: number }>
  countConnections: () => number
  /** Keeps places for a caller whose message was authentic and new, where idle connections give way. */
  keepPlacesFor: (address: string) => void
  /**
   * Replaces the certificates of later handshakes; open connections stay. Throws for a certificate that cannot serve,
   * or on plain HTTP.
   */
  replaceIdentity: (identity: ServerIdentity) => void
  /** Stops accepting, closes idle connections, and resolves when the last exchange has ended. */
  close: () => Promise<void>
  destroy: () => void
}>

export type UpstreamTimeouts = Readonly<{
  connectMs: number
  firstByteMs: number
  idleMs: number
  bodyIdleMs?: number
}>

export type Cancellable = Readonly<{ cancel: () => void }>

/** Which requests may share connections. Those to different upstreams or clusters never do. */
export type Sharing = Readonly<{
  /** The upstream's name, or `cluster:` and an id. */
  upstream: string
  route: string | undefined
  /** The organization that gets the answer, or the user without one. Its connections are offered to it first. */
  owner: number | string
  /** Whether its connections serve no other owner. */
  isIsolated: boolean
}>

/** Makes the lines that may change until the head is written. A retry calls it again. */
export type PrepareHead = () => Awaitable<PreparedHeaders>

export type UpstreamRequest = Readonly<{
  origin: string
  sharing?: Sharing
  /** Without it the public authorities are trusted. Another object means other connections. */
  tls?: UpstreamTls | undefined
  networks?: Networks | undefined
  method: string
  path: string
  headers: RawHeaders
  /** Called once the connection is open. If it throws or rejects, nothing is written, and that error is the cause. */
  prepare?: PrepareHead
  body: RequestBody | undefined
  account?: MemoryAccount
  asksForWebSocket: boolean
  /** The most that the head may have; absent, as much as it has. */
  headLimitBytes?: number | undefined
  bodyLimitBytes: number
  timeouts: UpstreamTimeouts
  isFreshConnection: boolean
  onCancellable: (request: Cancellable) => void
}>

/** Whether the message's own framing proved the end of its body, or only the end of its connection (RFC 9112 6.3). */
export type BodyEnd = 'framed' | 'closed'

/**
 * The receiver of a response body. `data` returns false to pause until `resume` is called. Its chunk is a borrowed
 * buffer: a receiver copies the bytes that it keeps after it returns.
 */
export type ResponseSink = Readonly<{
  data: (chunk: Buffer) => boolean
  end: (how: BodyEnd) => void
  fail: (error: UpstreamError) => void
}>

export type UpstreamResponse = Readonly<{
  status: number
  reason: string
  headers: RawHeaders
  /** Starts the body, whose silences may last the request's `idleMs`, or the given time. Called once. */
  pipe: (sink: ResponseSink, idleMs?: number) => void
  resume: () => void
  abort: () => void
}>

/** A 101 that was asked for. Its owner must join or destroy the connection. */
export type UpstreamUpgrade = Readonly<{ headers: RawHeaders; connection: UpgradedConnection }>

export type UpstreamResult = UpstreamResponse | UpstreamUpgrade

/**
 * `no-response` is a connection that broke before the first byte of a response. `stale` is the same on a reused
 * connection, which its upstream may have closed meanwhile, and `unsent` on one that broke before the head was written.
 * `pool-exhausted` means that all permitted connections are busy, and `protocol-error` a response that is malformed or
 * breaks off. With `head-too-large` nothing was written, and with `cancelled` the gateway itself gave up.
 */
export type UpstreamFault =
  | 'unreachable'
  | 'no-response'
  | 'stale'
  | 'unsent'
  | 'pool-exhausted'
  | 'timeout'
  | 'protocol-error'
  | 'head-too-large'
  | 'body-too-large'
  | 'body-malformed'
  | 'body-timeout'
  | 'cancelled'

export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  readonly fault: UpstreamFault

  constructor(fault: UpstreamFault, options?: ErrorOptions) {
    super(`upstream request failed: ${fault}`, options)
    this.fault = fault
  }
}

/** The answers behind which an upstream may send more bytes: those that have no body, and those whose body has ended. */
export const surplusKinds = ['head', '204', '304', 'body'] as const

export type Surplus = Readonly<{
  kind: (typeof surplusKinds)[number]
  origin: string
  isCluster: boolean
  upstream: string
  route: string | undefined
  /** Whether the origin was believed until now. */
  isFirst: boolean
}>

/** Sends a request and resolves when the final head of the answer is in; rejects with an `UpstreamError`. */
export type Send = (request: UpstreamRequest) => Promise<UpstreamResult>

/** As long as CoreDNS lets the names of Kubernetes be kept by default: an address that moved is left within seconds. */
export const usualDnsCacheMs = 5_000

export type HeldMemory = Readonly<{
  bytes: number
  /** Connections that hold some of it and are read sparingly, because their client or organization holds too much. */
  throttledConnections: number
  /** Reads of large bodies that waited for a later turn, since the start. */
  heldReads: number
}>

export interface Engine {
  listen(options: ListenerOptions, handle: (exchange: Exchange) => void): Promise<Listener>
  readonly send: Send
  readHeldMemory(): HeldMemory
  countUpstreamConnections(): ReadonlyMap<string, number>
  /** Origins whose connections serve one request each, because they sent bytes beyond an answer. */
  countDistrustedOrigins(): number
  close(): Promise<void>
}
