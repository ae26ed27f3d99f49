import { createHash } from 'node:crypto'
import type { RawHeaders } from './exchange.ts'

/** RFC 6455 4.2.1: sixteen bytes in base64. */
const keyPattern = /^[+/0-9A-Za-z]{22}==$/

/** RFC 6455 1.3: a suffix that only WebSocket servers append. */
const acceptGuid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

export type HandshakeHead = Readonly<{
  method: string
  httpVersion: string
  headers: Readonly<Partial<Record<string, string>>>
  hasBody: boolean
}>

/**
 * Whether a request that llhttp calls an upgrade is a valid handshake. Repeated lines come joined and fail. A request
 * that waits for 100 Continue is not a handshake (RFC 9110 7.8).
 */
export function isHandshake({ method, httpVersion, headers, hasBody }: HandshakeHead): boolean {
  return (
    method === 'GET' &&
    httpVersion === '1.1' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    headers['sec-websocket-version'] === '13' &&
    keyPattern.test(headers['sec-websocket-key'] ?? '') &&
    headers.expect === undefined &&
    !hasBody
  )
}

/**
 * Whether a 101 proves that its sender switched to WebSocket for this very request (RFC 6455 4.1). An attacker may have
 * planted the status, and could then smuggle requests through the tunnel.
 */
export function isSwitched(requested: RawHeaders, answered: RawHeaders): boolean {
  const [key, ...moreKeys] = readValues(requested, 'sec-websocket-key')
  const accept = createHash('sha1').update(`${key}${acceptGuid}`).digest('base64')
  const [protocol, ...moreProtocols] = readValues(answered, 'upgrade')
  const [accepted, ...moreAccepted] = readValues(answered, 'sec-websocket-accept')
  const isSingle = key !== undefined && moreKeys.length === 0 && moreProtocols.length === 0 && moreAccepted.length === 0
  return isSingle && protocol?.toLowerCase() === 'websocket' && accepted === accept
}

const readValues = (headers: RawHeaders, name: string): readonly string[] =>
  headers.filter((_, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === name)

/** RFC 6455 5.5.1: an unmasked close frame, as servers send it. */
export const composeCloseFrame = (code: number): Buffer => Buffer.from([0x88, 2, code >> 8, code & 0xff])

/** RFC 6455 5.2: two bytes, up to eight of an extended length, and four of a mask. */
const extendedLengths: Readonly<Record<number, number>> = { 126: 2, 127: 8 }

/** Follows the frames of one direction, so that a frame can be sent between two of them. */
export class FrameBoundary {
  #headBytes = 0
  #lengthBytes = 0
  #maskBytes = 0
  #payloadBytes = 0

  get isReached(): boolean {
    return this.#headBytes === 0 && this.#payloadBytes === 0
  }

  pass(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; )
      if (this.#headBytes === 0 && this.#payloadBytes > 0) {
        const passed = Math.min(this.#payloadBytes, bytes.length - at)
        this.#payloadBytes -= passed
        at += passed
      } else {
        this.#readHead(bytes[at] ?? 0)
        at += 1
      }
  }

  #readHead(byte: number): void {
    this.#headBytes += 1
    if (this.#headBytes === 1) return
    if (this.#headBytes === 2) {
      const length = byte & 0x7f
      this.#lengthBytes = extendedLengths[length] ?? 0
      this.#maskBytes = byte & 0x80 ? 4 : 0
      this.#payloadBytes = this.#lengthBytes > 0 ? 0 : length
    } else if (this.#headBytes <= 2 + this.#lengthBytes) this.#payloadBytes = this.#payloadBytes * 256 + byte
    if (this.#headBytes === 2 + this.#lengthBytes + this.#maskBytes) this.#headBytes = 0
  }
}
