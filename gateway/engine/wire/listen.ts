import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer } from 'node:tls'
import { Roster } from '../../roster/roster.ts'
import { Bursts } from '../bursts.ts'
import type { Listener, ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import { watchSlowReaders } from '../slow-readers.ts'
import { type Handshakes, watchHandshakes } from '../tls/handshakes.ts'
import { replaceIdentity } from '../tls/replace-identity.ts'
import { composeServerOptions, type ListenerTls } from '../tls/server-context.ts'
import { resetConnection } from '../transport.ts'
import { ClientConnection, type Reception } from './client-connection.ts'

/** What may wait for a slow client before its upstream is held up. From Node 22 on the default is four times as much. */
const highWaterMark = 16 * 1024

/** Listens on TCP, or TLS; every byte that arrives is read by the strict parser. */
export async function listen(options: ListenerOptions, handle: (exchange: Exchange) => void): Promise<Listener> {
  const connections = new Roster<ClientConnection>()
  let isClosing = false
  const reception: Reception = {
    options,
    handle,
    isClosing: () => isClosing,
    connections,
  }
  const take = (socket: Socket): void => {
    if (!socket.destroyed) new ClientConnection(socket, reception)
  }
  // Of a crowd that comes at once, the others wait for those who are here already.
  const arriving = new Bursts(take)
  const { server, handshakes } = options.tls
    ? openSecure(options, options.tls, take)
    : open((socket) => arriving.add(socket))
  server.maxConnections = options.maxConnections
  server.on('drop', () => options.onDropped('limit'))
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: options.host, port: options.port, backlog: 4096 }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const stopWatch = watchSlowReaders(
    () => [...connections].map(({ socket }) => socket),
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
    close: async () => {
      isClosing = true
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      handshakes?.cut()
      for (const socket of arriving.clear()) socket.destroy()
      // What has an exchange ends after it.
      for (const connection of connections) connection.closeIdle()
      await closed
      stopWatch()
    },
    destroy: () => {
      handshakes?.cut()
      for (const socket of arriving.clear()) socket.destroy()
      for (const connection of connections) connection.destroy()
    },
  }
}

type Opened = Readonly<{ server: Server; handshakes?: Handshakes }>

function open(take: (socket: Socket) => void): Opened {
  // A client that ends its side may have to be told of a request that it has not finished. Nothing is read of a
  // connection, and nothing can happen to it, before it is taken.
  return { server: createServer({ allowHalfOpen: true, noDelay: true, highWaterMark, pauseOnConnect: true }, take) }
}

/** Connections come one by one, as their handshakes end. */
function openSecure({ onDropped }: ListenerOptions, tls: ListenerTls, take: (socket: Socket) => void): Opened {
  const server = createSecureServer({ noDelay: true, highWaterMark, ...composeServerOptions(tls) })
  // Before anybody takes its connections: one that is refused must not be read from.
  const handshakes = watchHandshakes(server, () => onDropped('handshake'))
  server.on('secureConnection', take)
  return { server, handshakes }
}
