import { type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { retire } from '../retire.ts'
import { isHandshake } from '../websocket.ts'
import type { Connection } from './connection.ts'
import { keepEarlyBytes } from './early-bytes.ts'

/** Takes a handshake; `takeOver` stops the reading and gives what the client has said since. */
export type TakeHandshake = (
  connection: Connection,
  request: IncomingMessage,
  response: ServerResponse,
  takeOver: () => Buffer,
) => void

/**
 * Hears of upgrades. Node:http hands over every request that asks for one, whatever it asks for, together with its
 * connection and without a parser: handshakes are taken, all others are put back as if they had not asked.
 */
export function hearUpgrades(
  server: Server,
  findConnection: (socket: Duplex) => Connection | undefined,
  take: TakeHandshake,
): void {
  server.on('upgrade', (request: IncomingMessage, duplex: Duplex, head: Buffer) => {
    const connection = findConnection(duplex)
    if (!connection || connection.isRefused) return
    const { socket } = request
    const takeOver = keepEarlyBytes(socket, head)
    connection.leaveParser()
    connection.onIdle(() => {
      if (socket.destroyed || connection.isRefused) return
      if (isHandshake(request)) take(connection, request, createResponse(request, takeOver), takeOver)
      // Not before the parser that we are called from has returned: the new one may be the same object.
      else setImmediate(() => putBack(server, connection, request, takeOver()))
    })
  })
}

/** An answer on a connection that has no parser any more: the last one. */
function createResponse(request: IncomingMessage, takeOver: () => Buffer): ServerResponse {
  const { socket } = request
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  response.once('finish', () => {
    response.detachSocket(socket)
    // Node:http says so of the answers that it has made itself.
    response.emit('close')
    takeOver() // and drop it: nobody joined this client
    retire(socket)
  })
  return response
}

/** Has the request read again, without its `Upgrade` (RFC 9110 7.8: a server may ignore it). */
function putBack(server: Server, connection: Connection, request: IncomingMessage, rest: Buffer): void {
  const { socket } = request
  if (socket.destroyed || socket.readableEnded) return
  socket.unshift(Buffer.concat([composeHead(request), rest]))
  connection.awaitParser()
  // A TLS server would take it for one that comes before its handshake.
  server.emit('encrypted' in socket ? 'secureConnection' : 'connection', socket)
  socket.resume()
}

function composeHead({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = rawHeaders.map((part, index) => (index % 2 === 0 ? `${part}: ` : `${part}\r\n`))
  const kept = lines.filter((_, index) => rawHeaders[index - (index % 2)]?.toLowerCase() !== 'upgrade')
  return Buffer.from(`${method} ${url} HTTP/${httpVersion}\r\n${kept.join('')}\r\n`, 'latin1')
}
