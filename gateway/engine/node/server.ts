import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { RefusalCode } from '../../errors/gateway-error.ts'
import type { Listener, ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import { Connection } from './connection.ts'
import { NodeExchange } from './exchange.ts'
import { type ParseError, refusalOf } from './parse-error.ts'
import { hearUpgrades, type TakeHandshake } from './upgrades.ts'
import { announcesBody } from './websocket.ts'

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
  const server = createServer({
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

  const connections = new Map<Duplex, Connection>()
  const forget = function (this: Socket): void {
    connections.delete(this)
  }
  server.on('connection', (socket: Socket) => {
    if (connections.has(socket)) return // put back after an upgrade that was none
    connections.set(socket, new Connection(socket))
    socket.on('close', forget)
  })
  const { bodyIdleTimeoutMs } = options
  const begin = (connection: Connection, exchange: NodeExchange): void => {
    connection.add(exchange)
    handle(exchange)
  }
  const onRequest = (expectsContinue: boolean) => (request: IncomingMessage, response: ServerResponse) => {
    const connection = connections.get(request.socket)
    if (!connection || connection.isRefused) return
    begin(connection, new NodeExchange(connection, request, response, { expectsContinue, bodyIdleTimeoutMs }))
  }
  server.on('request', onRequest(false))
  server.on('checkContinue', onRequest(true))
  server.on('checkExpectation', onRequest(false))
  const takeHandshake: TakeHandshake = (connection, request, response, takeOver) => {
    const how = { expectsContinue: false, bodyIdleTimeoutMs, takeOver }
    begin(connection, new NodeExchange(connection, request, response, how))
  }
  if (options.takesHandshakes) hearUpgrades(server, (socket) => connections.get(socket), takeHandshake)
  const refuse = (socket: Duplex, code: RefusalCode): void => {
    const connection = connections.get(socket)
    if (connection?.isRefused === false) options.onUnparsed(code)
    connection?.refuse(code)
  }
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => refuse(socket, 'method_not_allowed'))
  server.on('clientError', (error: ParseError, socket: Duplex) => refuse(socket, refusalOf(error)))

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
    close: () => closeGracefully(server, connections),
    // Not node's own: that leaves open what has been upgraded.
    destroy: () => {
      for (const connection of connections.values()) connection.destroy()
    },
  }
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
