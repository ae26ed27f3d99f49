import type { RawHeaders } from '../exchange.ts'
import { composeLine, readLineName } from '../header-line.ts'
import type { PreparedHeaders } from '../prepared-headers.ts'

/** These state a missing body by its length (RFC 9110 8.6). */
const methodsWithBody = new Set(['POST', 'PUT', 'PATCH'])

/** The engine writes these headers itself, so a caller that passes one has a bug. */
const ownNames = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'expect'])

const hostName = readLineName('host')

/** RFC 9112 3: a byte of the method or target must not end its word of the request line. */
const methodPattern = /^[A-Z]+$/
const targetPattern = /^[\x21-\x7e\x80-\xff]+$/

type HeadConnection = Readonly<{
  authority: string
  /** Whether the connection serves no other request. */
  isForOne: boolean
}>

export type HeadRequest = Readonly<{
  method: string
  path: string
  headers: RawHeaders
  body: Readonly<{ length: number | undefined }> | undefined
  asksForWebSocket: boolean
}>

/** The head without its framing, in a fixed order: `Host` and `Connection` first. */
export function composeRequestHead(
  request: Omit<HeadRequest, 'body'>,
  connection: HeadConnection,
  prepared?: PreparedHeaders,
): string {
  const { method, path, headers } = request
  if (!methodPattern.test(method) || !targetPattern.test(path)) throw new TypeError('not a request line')
  let host: string | undefined
  let lines = ''
  for (let index = 0; index < headers.length; index += 2) {
    const name = readLineName(headers[index] ?? '')
    const value = headers[index + 1] ?? ''
    const { key } = name
    if (key === 'content-length') continue
    if (key !== 'host') {
      if (ownNames.has(key)) throw new TypeError('a line of framing')
      lines += composeLine(name, value)
    } else if (host === undefined) host = value
    else throw new TypeError('two hosts')
  }
  return `${method} ${path} HTTP/1.1\r\n${composeLine(hostName, host ?? connection.authority)}${chooseConnection(request, connection)}${lines}${prepared?.text ?? ''}`
}

/** Bytes of the whole head, which is latin1. A body of unknown length counts as chunks, the longest framing. */
export const measureRequestHead = (
  request: HeadRequest,
  connection: HeadConnection,
  prepared?: PreparedHeaders,
): number =>
  composeRequestHead(request, connection, prepared).length +
  composeFraming(request.method, request.body ? request.body.length : 0).length

function chooseConnection(
  { method, asksForWebSocket }: Omit<HeadRequest, 'body'>,
  { isForOne }: HeadConnection,
): string {
  if (asksForWebSocket) return 'connection: upgrade\r\nupgrade: websocket\r\n'
  // Some backends send a body to HEAD anyway, late enough to pass for the next response.
  return isForOne || method === 'HEAD' ? 'connection: close\r\n' : 'connection: keep-alive\r\n'
}

/** The framing and the blank line. `bodyLength` is undefined for chunks. */
export function composeFraming(method: string, bodyLength: number | undefined): string {
  if (bodyLength === undefined) return 'transfer-encoding: chunked\r\n\r\n'
  return bodyLength > 0 || methodsWithBody.has(method) ? `content-length: ${bodyLength}\r\n\r\n` : '\r\n'
}
