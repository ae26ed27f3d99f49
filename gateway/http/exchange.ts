/** Header lines as they stood on the wire, in order: name, value, name, value, … */
export type RawHeaders = readonly string[]

/** The head of an answer; the engine adds framing, `Date` and `Connection` itself. */
export type ResponseHead = Readonly<{ status: number; reason?: string; headers: RawHeaders }>

/** The request's body, unread. An engine hands it on to an upstream; only owned endpoints read it here. */
export interface RequestBody {
  /** Bytes announced by Content-Length, 0 without a body, undefined when chunked. */
  readonly length: number | undefined
  /** Collects the body, at most `limitBytes`: more throws `body_too_large`, silence throws `request_timeout`. */
  read(limitBytes: number): Promise<Buffer>
}

/**
 * An answer under way. `write` returns false when the client is slow; `onDrain` says when to go on. Bytes that the same
 * engine has lent may be given to it as they are.
 */
export interface ResponseWriter {
  write(chunk: Buffer): boolean
  onDrain(listener: () => void): void
  end(): void
}

/** A connection that has left HTTP. Opaque: the engine that made it joins it to a client's. */
export interface UpgradedConnection {
  destroy(): void
}

/**
 * What one connection holds of the memory that all of them share: bytes that wait for a slow peer, on either side. Whoever
 * keeps such bytes counts them here, until they have been passed on or dropped; what closes with the connection is forgotten.
 */
export interface MemoryAccount {
  /** True while its client or organization holds more than its part, and there is little left: to be read from sparingly. */
  readonly isThrottled: boolean
  /** Says whose the bytes are: the client's, which may speak through a proxy, and from its permit on the organization's. */
  fromAddress(address: string): void
  forOrganization(id: number | undefined): void
  hold(bytes: number): void
  release(bytes: number): void
  /** Calls back once, where there is no room left, for what can be let go of without the connection. */
  onRelief(listener: (() => void) | undefined): void
}

/** The bytes that one place keeps for a connection, said anew as they change. */
export class Holding {
  #account: MemoryAccount
  #bytes = 0

  constructor(account: MemoryAccount) {
    this.#account = account
  }

  get bytes(): number {
    return this.#bytes
  }

  set(bytes: number): void {
    const change = bytes - this.#bytes
    if (change === 0) return
    this.#bytes = bytes
    if (change > 0) this.#account.hold(change)
    else this.#account.release(-change)
  }

  /** From now on they are kept for another one. */
  moveTo(account: MemoryAccount): void {
    this.#account.release(this.#bytes)
    this.#account = account
    this.#account.hold(this.#bytes)
  }
}

/** One request as it stands on the wire, and the means to answer it: all that the pipeline sees of HTTP. */
export interface Exchange {
  readonly method: string
  /** The request-target, byte for byte (RFC 9112 3.2). Only `receive/` reads it. */
  readonly target: string
  readonly httpVersion: string
  /** Empty once the head of an answer went out: a stream would hold them for hours. */
  readonly headers: RawHeaders
  /** The address of the TCP peer, which may be a proxy. */
  readonly peerAddress: string
  readonly isEncrypted: boolean
  readonly body: RequestBody
  readonly account: MemoryAccount
  /** True for a WebSocket handshake (RFC 6455 4.2.1). Any other `Upgrade` is as good as absent (RFC 9110 7.8). */
  readonly isHandshake: boolean
  /** True once a head went out: from then on a refusal can only break the connection. */
  readonly hasStarted: boolean
  /** The status that went out, 0 before that. */
  readonly status: number
  /** Changes the header lines of whatever answer comes, ours or an upstream's; one change after the other. */
  transformHead(transform: (headers: RawHeaders) => RawHeaders): void
  /**
   * Says that a refusal with this status follows, should it have to wait: after one of the request's framing nothing more
   * may be read from the connection in the meantime.
   */
  willRefuse(status: number): void
  /** Sends a whole response. */
  respond(head: ResponseHead, body: string): void
  /** Begins a response that is written in pieces. */
  startResponse(head: ResponseHead): ResponseWriter
  /** Answers a handshake with 101 and joins its two ends, until one has gone or both are silent for `idleMs`. */
  tunnel(headers: RawHeaders, upstream: UpgradedConnection, idleMs: number): void
  /** Breaks the connection, so that what was sent so far cannot pass for a complete answer. */
  destroy(): void
  /** Calls back once, when the answer is complete or the client has gone. */
  onEnd(listener: (isComplete: boolean) => void): void
}
