import type { PlainCode } from '../errors/gateway-error.ts'
import type { Exchange, MemoryAccount, RawHeaders, RequestBody, UpgradedConnection } from './exchange.ts'
import type { PreparedHeaders } from './prepared-headers.ts'
import type { ListenerTls, ServerIdentity } from './tls/server.ts'
import type { UpstreamTls } from './tls/upstream.ts'
import type { Networks } from './upstream/networks.ts'

export type { UpstreamTls } from './tls/upstream.ts'
export type { Networks } from './upstream/networks.ts'

export type ListenerOptions = Readonly<{
  host: string
  port: number
  /** Absent: plain HTTP. */
  tls?: ListenerTls | undefined
  /** Time for a request's head to arrive, from the first byte or from the connection's start. */
  headersTimeoutMs: number
  /** Silence allowed inside a request's body. */
  bodyIdleTimeoutMs: number
  /** The least pace of a body, on average over that time; 0: one byte is enough. */
  minBodyBytesPerSecond: number
  /** Presents WebSocket handshakes as such; without it they are requests like any other. */
  takesHandshakes?: boolean
  /** For how long a client may take nothing, or too little, of what waits for it. */
  clientIdleTimeoutMs: number
  /** The least pace at which it takes that, on average over that time; 0: one byte is enough. */
  minResponseBytesPerSecond: number
  /** Open at once; one more is closed as soon as it is accepted. */
  maxConnections: number
  /** Told of every request that was refused before it could be read. */
  onMalformed: (refusal: MalformedRequest) => void
  /**
   * Told of every connection that was closed for one too many, for taking nothing, before TLS was agreed on, or because
   * too much memory was held for it.
   */
  onDropped: (reason: 'limit' | 'stalled' | 'handshake' | 'memory') => void
  /** Told of what was thrown by a handler, or by a listener of an exchange. */
  onFault: (error: unknown) => void
}>

export type MalformedRequest = Readonly<{
  code: PlainCode
  /** In the answer as well. */
  requestId: string
  peerAddress: string
  /** True where only the rest of a request could not be read, whose exchange there has been before. */
  isBody: boolean
}>

export type Listener = Readonly<{
  address: Readonly<{ host: string; port: number }>
  countConnections: () => number
  /** What handshakes from now on present and take; open connections stay. Throws where it cannot serve, or on plain HTTP. */
  replaceIdentity: (identity: ServerIdentity) => void
  /** Stops accepting, closes idle connections, and resolves when the last exchange has ended. */
  close: () => Promise<void>
  /** Breaks whatever is still open. */
  destroy: () => void
}>

export type UpstreamTimeouts = Readonly<{
  connectMs: number
  firstByteMs: number
  idleMs: number
  /** Silence of the client inside its body, where it is not the listener's. */
  bodyIdleMs?: number
}>

export type UpstreamRequest = Readonly<{
  /** Scheme, host and port. */
  origin: string
  /** With which certificates; absent: as the public authorities say. Another object means other connections. */
  tls?: UpstreamTls | undefined
  /** What the address that is connected to must be in; absent: anywhere. Another object means other connections. */
  networks?: Networks | undefined
  method: string
  /** Path and query, byte for byte. */
  path: string
  headers: RawHeaders
  /** More lines, behind these. */
  prepared?: PreparedHeaders
  body: RequestBody | undefined
  /** Pays for what waits on the way; absent: nobody does. */
  account?: MemoryAccount
  /** Asks the upstream to switch to WebSocket. */
  asksForWebSocket: boolean
  bodyLimitBytes: number
  timeouts: UpstreamTimeouts
  /** Opens a connection of its own instead of taking one from the pool. */
  isFreshConnection: boolean
  /** Registers what cancels this request, should the client leave. */
  onCancellable: (cancel: () => void) => void
}>

/**
 * Where the body of an upstream's answer goes. `data` returns false to pause until `resume` is called. Its chunk is lent:
 * the bytes may be another's as soon as it returns, so what is kept of them is copied.
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
  /** Starts the flow of the body, whose silences may last the request's `idleMs`, or as said here. Called once. */
  pipe: (sink: ResponseSink, idleMs?: number) => void
  resume: () => void
  abort: () => void
}>

/** A 101 as it was asked for. The connection is no longer HTTP's, and nobody's until it is joined or destroyed. */
export type UpstreamUpgrade = Readonly<{ headers: RawHeaders; connection: UpgradedConnection }>

export type UpstreamResult = UpstreamResponse | UpstreamUpgrade

/**
 * `no-response`: the connection broke before the first byte of a response; `stale` is the same on a kept one, which says
 * nothing of its upstream: it may just have closed under its next request. `pool-exhausted`: as many connections as may be
 * are busy. `protocol-error`: the response cannot be read, or breaks off. `cancelled` is our own doing.
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

/** For how long addresses of upstreams' names are good where nothing is said. */
export const usualDnsCacheMs = 5_000

export type HeldMemory = Readonly<{
  bytes: number
  /** Connections that hold some of it, and are read from sparingly because others of theirs hold too much. */
  throttledConnections: number
}>

/** Both ends of the wire. What lies behind it may be replaced whole. */
export interface Engine {
  listen(options: ListenerOptions, handle: (exchange: Exchange) => void): Promise<Listener>
  readonly send: Send
  /** What is held for slow peers just now. */
  readHeldMemory(): HeldMemory
  /** The connections to upstreams that are open, by scheme, host and port. */
  countUpstreamConnections(): ReadonlyMap<string, number>
  close(): Promise<void>
}
