import { openRoute } from './gateway.ts'

// The example of RFC 6455 1.3.
const key = 'dGhlIHNhbXBsZSBub25jZQ=='
export const accept = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='

/** A handshake as RFC 6455 writes it, with more lines of the test's own. */
export const handshake = (path = '/socket', more = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
  `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n${more}\r\n`

/** The server's answer to it. */
export const switching =
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
  `Sec-WebSocket-Accept: ${accept}\r\n\r\n`

/** Every path of the platform's upstream, public, WebSockets too. */
export const socketRoute = { ...openRoute, websocket: true }
