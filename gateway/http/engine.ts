import type { PlainCode } from '../errors/gateway-error.ts'
import type { Exchange, MemoryAccount, RawHeaders, RequestBody, UpgradedConnection } from './exchange.ts'
import type { PreparedHeaders } from './prepared-headers.ts'
import type { UpstreamTls } from './tls/client.ts'
import type { ListenerTls, ServerIdentity } from './tls/server.ts'
import type { Networks } from './upstream/networks.ts'

export type { UpstreamTls } from './tls/client.ts'
export type { Networks } from './upstream/networks.ts'

export type ListenerOptions = Readonly<{
  host: string
  port: number
  tls?: ListenerTls | undefined
  /** Time for a request's head to arrive, from its first byte or from the connection's start. */
  headersTimeoutMs: number
  bodyIdleTimeoutMs: number
  minBodyBytesPerSecond: number
  /** Reports WebSocket handshakes as such, instead of as requests like any other. */
  takesHandshakes?: boolean
  /** Time and average rate at which a client must take a waiting response. At a rate of 0 one byte is enough. */
  clientIdleTimeoutMs: number
  minResponseBytesPerSecond: number
  maxConnections: number
  onMalformed: (refusal: MalformedRequest) => void
  onDropped: (reason: 'limit' | 'stalled' | 'handshake' | 'memory') => void
  onFault: (error: unknown) => void
}>

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

export type UpstreamRequest = Readonly<{
  origin: string
  /** Without it the public authorities are trusted. Another object means other connections. */
  tls?: UpstreamTls | undefined
  networks?: Networks | undefined
  method: string
  path: string
  headers: RawHeaders
  prepared?: PreparedHeaders
  body: RequestBody | undefined
  account?: MemoryAccount
  asksForWebSocket: boolean
  bodyLimitBytes: number
  timeouts: UpstreamTimeouts
  isFreshConnection: boolean
  onCancellable: (request: Cancellable) => void
}>

/**
 * The receiver of a response body. `data` returns false to pause until `resume` is called. Its chunk is a borrowed
 * buffer: a receiver copies the bytes that it keeps after it returns.
 */
export type ResponseSink = Readonly<{
  data: (chunk: Buffer) => boolean
  end: () => void
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
 * connection, which its upstream may have closed meanwhile. `pool-exhausted` means that all permitted connections are
 * busy, and `protocol-error` a response that is malformed or breaks off. With `cancelled` the gateway itself gave up.
 */
export type UpstreamFault =
  | 'unreachable'
  | 'no-response'
  | 'stale'
  | 'pool-exhausted'
  | 'timeout'
  | 'protocol-error'
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

/** Sends a request and resolves when the final head of the answer is in; rejects with an `UpstreamError`. */
export type Send = (request: UpstreamRequest) => Promise<UpstreamResult>

export const usualDnsCacheMs = 5_000

export type HeldMemory = Readonly<{
  bytes: number
  /** Connections that hold some of it and are read sparingly, because their client or organization holds too much. */
  throttledConnections: number
}>

export interface Engine {
  listen(options: ListenerOptions, handle: (exchange: Exchange) => void): Promise<Listener>
  readonly send: Send
  readHeldMemory(): HeldMemory
  countUpstreamConnections(): ReadonlyMap<string, number>
  close(): Promise<void>
}
