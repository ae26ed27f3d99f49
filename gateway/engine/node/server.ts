import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { RefusalCode } from '../../errors/gateway-error.ts'
import type { Listener, ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import { isOfConnection, type ParseError, refusalOf } from '../parse-error.ts'
import { watchSlowReaders } from '../slow-readers.ts'
import { type Handshakes, watchHandshakes } from '../tls/handshakes.ts'
import { replaceIdentity } from '../tls/replace-identity.ts'
import { composeServerOptions } from '../tls/server-context.ts'
import { resetConnection } from '../transport.ts'
import { announcesBody, asksForUpgrade } from '../websocket.ts'
import { Connection } from './connection.ts'
import { type ExchangeOptions, NodeExchange } from './exchange.ts'
import { hearUpgrades, type TakeHandshake } from './upgrades.ts'

/**
 * More than any limit of ours, so that `receive/` can tell a long target (414) from long headers (431)
 * and answer in the house's shape.
 */
const parserHeaderBytes = 32 * 1024

/**
 * Node from 24.9 on asks which requests are upgrades. One with a body is none: Node 26 would keep the body from the
 * bytes that we put back.
 */
const hasNoBody = (request: IncomingMessage): boolean => !announcesBody(request)

/** Listens with node:http, which keeps the strict parser (no `insecureHTTPParser`). */
export async function listen(options: ListenerOptions, handle: (exchange: Exchange) => void): Promise<Listener> {
  const { server, handshakes } = create(options, {
    maxHeaderSize: parserHeaderBytes,
    headersTimeout: options.headersTimeoutMs,
    requestTimeout: 0,
    connectionsCheckingInterval: 1_000,
    // The check of Host is ours: node's own answer to a missing one has no body and no shape.
    requireHostHeader: false,
    noDelay: true,
    keepAliveTimeout: 65_000,
    ...(options.takesHandshakes && { shouldUpgradeCallback: hasNoBody }),
  })
  // Node drops header lines past 2,000 in silence; the size limit is the one that counts.
  server.maxHeadersCount = 0

  server.maxConnections = options.maxConnections
  server.on('drop', () => options.onDropped('limit'))

  const connections = new Map<Duplex, Connection>()
  const forget = function (this: Socket): void {
    connections.delete(this)
  }
  server.on(options.tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    // Put back after an upgrade that was none; or refused with its handshake.
    if (connections.has(socket) || socket.destroyed) return
    connections.set(socket, new Connection(socket))
    socket.on('close', forget)
  })
  const begin = (
    connection: Connection,
    request: IncomingMessage,
    response: ServerResponse,
    how: ExchangeOptions,
  ): void => {
    try {
      const exchange = new NodeExchange(connection, request, response, how)
      connection.add(exchange)
      handle(exchange)
    } catch (error) {
      // Out of here it would be an uncaught exception.
      options.onFault(error)
      connection.destroy()
    }
  }
  const onRequest = (expectsContinue: boolean) => {
    const how = { ...options, expectsContinue }
    return (request: IncomingMessage, response: ServerResponse) => {
      const connection = connections.get(request.socket)
      if (!connection?.takesRequests) return
      if (asksForUpgrade(request)) {
        connection.markLast()
        response.shouldKeepAlive = false
      }
      begin(connection, request, response, how)
    }
  }
  server.on('request', onRequest(false))
  server.on('checkContinue', onRequest(true))
  server.on('checkExpectation', onRequest(false))
  const takeHandshake: TakeHandshake = (connection, request, response, takeOver) =>
    begin(connection, request, response, { ...options, expectsContinue: false, takeOver })
  if (options.takesHandshakes) hearUpgrades(server, (socket) => connections.get(socket), takeHandshake)
  const refuse = (socket: Duplex, code: RefusalCode): void => {
    const connection = connections.get(socket)
    if (!connection || connection.isRefused) return
    const requestId = randomUUID()
    const { peerAddress, isReceiving } = connection
    // Nobody who sends nothing asks for anything.
    if (connection.hasReceived) options.onUnparsed({ code, requestId, peerAddress, isBody: isReceiving })
    connection.refuse(code, requestId)
  }
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => refuse(socket, 'method_not_allowed'))
  server.on('clientError', (error: ParseError, socket: Duplex) => {
    // A connection that broke is no request that could not be read.
    if (isOfConnection(error)) socket.destroy()
    else refuse(socket, refusalOf(error))
  })

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: options.host, port: options.port, backlog: 4096 }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const stopWatch = watchSlowReaders(
    () => connections.keys() as Iterable<Socket>, // a listener on TCP knows no other streams
    { idleMs: options.clientIdleTimeoutMs, bytesPerSecond: options.answerBytesPerSecond },
    (socket) => {
      options.onDropped('stalled')
      // A plain close would leave the system trying to send what nobody takes.
      resetConnection(socket)
    },
  )
  const { address, port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    address: { host: address, port },
    countConnections: handshakes?.count ?? (() => connections.size),
    replaceIdentity: replaceIdentity(server, options.tls),
    close: () => {
      const closed = closeGracefully(server, connections).finally(stopWatch)
      handshakes?.cut()
      return closed
    },
    // Not node's own: that leaves open what has been upgraded.
    destroy: () => {
      handshakes?.cut()
      for (const connection of connections.values()) connection.destroy()
    },
  }
}

type Created = Readonly<{ server: Server; handshakes?: Handshakes }>

/** Node:https is node:http on what a TLS server accepts. */
function create({ tls, onDropped }: ListenerOptions, options: ServerOptions): Created {
  if (!tls) return { server: createServer(options) }
  const server = createSecureServer({ ...options, ...composeServerOptions(tls) })
  return { server, handshakes: watchHandshakes(server, () => onDropped('handshake')) }
}

/**
 * A kept connection that falls idle after the close would otherwise hold it up for its whole keep-alive time, and
 * one that never sent anything, which node:http counts as busy, for its whole head's time.
 */
function closeGracefully(server: Server, connections: ReadonlyMap<unknown, Connection>): Promise<void> {
  return new Promise((resolve) => {
    const closeIdle = (): void => {
      server.closeIdleConnections()
      for (const connection of connections.values()) if (!connection.hasReceived) connection.destroy()
    }
    const timer = setInterval(closeIdle, 50)
    server.close(() => {
      clearInterval(timer)
      resolve()
    })
  })
}
