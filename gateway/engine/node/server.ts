import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { GatewayError, type RefusalCode } from '../../errors/gateway-error.ts'
import { render } from '../../errors/render.ts'
import { methods } from '../../policy/route.ts'
import type { Listener, ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import { NodeExchange } from './exchange.ts'
import { type ParseError, refusalOf } from './parse-error.ts'

/**
 * More than any limit of ours, so that `receive/` can tell a long target (414) from long headers (431)
 * and answer in the house's shape.
 */
const parserHeaderBytes = 64 * 1024

/** Listens with node:http, which keeps the strict parser (no `insecureHTTPParser`). */
export async function listen(options: ListenerOptions, handle: (exchange: Exchange) => void): Promise<Listener> {
  const server = createServer({
    maxHeaderSize: parserHeaderBytes,
    headersTimeout: options.headersTimeoutMs,
    requestTimeout: 0,
    connectionsCheckingInterval: 1_000,
    // The check of Host is ours: node's own answer to a missing one has no body and no shape.
    requireHostHeader: false,
    noDelay: true,
    keepAliveTimeout: 65_000,
  })
  // Node drops header lines past 2,000 in silence; the size limit is the one that counts.
  server.maxHeadersCount = 0

  const onRequest = (expectsContinue: boolean) => (request: IncomingMessage, response: ServerResponse) =>
    handle(new NodeExchange(request, response, expectsContinue, options.bodyIdleTimeoutMs))
  server.on('request', onRequest(false))
  server.on('checkContinue', onRequest(true))
  server.on('checkExpectation', onRequest(false))
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => refuse(socket, 'method_not_allowed', options))
  server.on('clientError', (error: ParseError, socket: Duplex) => refuse(socket, refusalOf(error), options))

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: options.host, port: options.port, backlog: 4096 }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const { address, port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    address: { host: address, port },
    close: () => closeGracefully(server),
    destroy: () => server.closeAllConnections(),
  }
}

/** A kept connection that falls idle after the close would otherwise hold it up for its whole keep-alive time. */
function closeGracefully(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const timer = setInterval(() => server.closeIdleConnections(), 50)
    server.close(() => {
      clearInterval(timer)
      resolve()
    })
  })
}

const refuse = (socket: Duplex, code: RefusalCode, options: ListenerOptions): void => {
  options.onUnparsed(code)
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const { status, headers, body } = render(
    new GatewayError(code, code === 'method_not_allowed' ? { allow: methods } : {}),
    'platform',
    randomUUID(),
  )
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${toLines(headers)}content-length: ${Buffer.byteLength(body)}\r\n` +
      `connection: close\r\n\r\n${body}`,
  )
}

const toLines = (headers: readonly string[]): string =>
  headers.map((part, index) => (index % 2 === 0 ? `${part}: ` : `${part}\r\n`)).join('')
