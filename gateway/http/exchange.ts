/** Header lines in the order received: name, value, name, value, … */
export type RawHeaders = readonly string[]

/**
 * The head of a response. The engine adds framing, `Date` and `Connection` itself; with `isBare` it adds only the lines
 * without which the client could not find the end of the response, or of the connection.
 */
export type ResponseHead = Readonly<{ status: number; reason?: string; headers: RawHeaders; isBare?: boolean }>

export type PassedBytes = Readonly<{ received: number; sent: number }>

/** The unread body. An engine passes it on to an upstream; only owned endpoints read it here. */
export interface RequestBody {
  /** Bytes announced by Content-Length, 0 without a body, undefined when chunked. */
  readonly length: number | undefined
  /** Collects at most `limitBytes`: a larger body throws `body_too_large`, silence throws `request_timeout`. */
  read(limitBytes: number): Promise<Buffer>
  /**
   * Waits for the first byte or the end, and consumes neither. Undefined where one is here; rejects with an
   * `UpstreamError`.
   */
  begin(idleMs?: number): Promise<void> | undefined
  /** Ends the wait of `begin`, if there is one. */
  cancel(): void
}

/**
 * A response under way. `write` returns false while the client is slow, until `onDrain` calls back. Borrowed buffers of
 * the same engine may be passed unchanged.
 */
export interface ResponseWriter {
  write(chunk: Buffer): boolean
  onDrain(listener: () => void): void
  end(): void
}

/** A connection that has left HTTP. Opaque: its engine joins it to a client's. */
export interface UpgradedConnection {
  destroy(): void
}

/**
 * One connection's part of the memory budget: bytes that wait for a slow peer, on either side. A buffer's owner counts
 * its bytes here until it has passed them on or dropped them. The account closes with its connection. A piece counts
 * `pieceBytes` more, since its object takes as much however few bytes it has, and `mostPieces` may wait for a peer.
 */
export interface MemoryAccount {
  /**
   * Whether its client or organization holds more than its share while memory is short. Such connections are read
   * sparingly.
   */
  readonly isThrottled: boolean
  /** The organization, or the network before it is known. Its reads share a slice of each turn. */
  readonly owner: string | number
  /** Assigns the bytes to a client, which may speak through a proxy, and once permitted to its organization. */
  fromAddress(address: string): void
  forOrganization(id: number | undefined): void
  hold(bytes: number): void
  release(bytes: number): void
  /** Calls back once when memory runs out, to release bytes without closing the connection. */
  onRelief(listener: (() => void) | undefined): void
}

/** A piece's buffer object and place take over a hundred bytes of memory (test/advisories/small-pieces.test.ts). */
export const pieceBytes = 128

/** Honest pieces have kilobytes, and fill a buffer sooner. A peer that sends single bytes is paused here. */
export const mostPieces = 256

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

  moveTo(account: MemoryAccount): void {
    this.#account.release(this.#bytes)
    this.#account = account
    this.#account.hold(this.#bytes)
  }
}

export type ClientCertificate = Readonly<{ names: readonly string[]; endsAt: Date }>

/** One request as received, and the means to respond: all that the pipeline sees of HTTP. */
export interface Exchange {
  readonly method: string
  /** The request-target, byte for byte (RFC 9112 3.2). Only `stages/receive/` reads it. */
  readonly target: string
  readonly httpVersion: string
  /** Emptied once the response has begun: a stream would hold them for hours. */
  readonly headers: RawHeaders
  readonly peerAddress: string
  readonly isEncrypted: boolean
  readonly clientCertificate: ClientCertificate | undefined
  readonly body: RequestBody
  readonly account: MemoryAccount
  /** Whether this is a WebSocket handshake (RFC 6455 4.2.1). Any other `Upgrade` is ignored (RFC 9110 7.8). */
  readonly isHandshake: boolean
  /** Whether a head was sent: a later refusal can only break the connection. */
  readonly hasStarted: boolean
  /** Whether the last byte of the response was handed over, even if it still waits for the client. */
  readonly isAnswered: boolean
  readonly status: number
  /** Bytes of bodies, or of a WebSocket, that were taken from the client and handed over to it so far. */
  readonly passedBytes: PassedBytes
  /** Changes the headers of the response, the gateway's or an upstream's. Several changes apply in order. */
  transformHead(transform: (headers: RawHeaders) => RawHeaders): void
  /** After a framing error nothing more may be read from the connection, even while the refusal waits. */
  willRefuse(status: number): void
  respond(head: ResponseHead, body: string): void
  startResponse(head: ResponseHead): ResponseWriter
  /** Answers a handshake with 101 and joins both connections, until one closes or both are silent for `idleMs`. */
  tunnel(headers: RawHeaders, upstream: UpgradedConnection, idleMs: number): void
  /** Ends a tunnel: a close frame with this code if the client has received whole frames alone, else a reset. */
  closeTunnel(code: number): void
  /** Breaks the connection, so that a partial response cannot pass for a complete one. */
  destroy(): void
  /** Breaks the connection and drops the bytes that are queued for the client, those of the system too. */
  reset(): void
  /** Closes the connection after the response, and resets it if the client does not take the rest within a second. */
  closeAfterResponse(): void
  onEnd<Target>(listener: (isComplete: boolean, target: Target) => void, target?: Target): void
}
