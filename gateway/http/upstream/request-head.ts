import type { UpstreamRequest } from '../engine.ts'
import { composeLine, readLineName } from '../header-line.ts'

/** These state a missing body by its length (RFC 9110 8.6). */
const methodsWithBody = new Set(['POST', 'PUT', 'PATCH'])

/** The engine writes these headers itself, so a caller that passes one has a bug. */
const ownNames = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'expect'])

const hostName = readLineName('host')

/** RFC 9112 3: a byte of the method or target must not end its word of the request line. */
const methodPattern = /^[A-Z]+$/
const targetPattern = /^[\x21-\x7e\x80-\xff]+$/

/** The head without its framing, in a fixed order: `Host` and `Connection` first. */
export function composeRequestHead(request: UpstreamRequest, originHost: string): string {
  const { method, path, headers, prepared } = request
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
  return `${method} ${path} HTTP/1.1\r\n${composeLine(hostName, host ?? originHost)}${chooseConnection(request)}${lines}${prepared?.text ?? ''}`
}

function chooseConnection({ method, asksForWebSocket }: UpstreamRequest): string {
  if (asksForWebSocket) return 'connection: upgrade\r\nupgrade: websocket\r\n'
  // Some backends send a body to HEAD anyway, late enough to pass for the next response.
  return method === 'HEAD' ? 'connection: close\r\n' : 'connection: keep-alive\r\n'
}

/** The framing and the blank line. `bodyLength` is undefined for chunks. */
export function composeFraming(method: string, bodyLength: number | undefined): string {
  if (bodyLength === undefined) return 'transfer-encoding: chunked\r\n\r\n'
  return bodyLength > 0 || methodsWithBody.has(method) ? `content-length: ${bodyLength}\r\n\r\n` : '\r\n'
}
