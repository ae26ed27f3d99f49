import { type AddressInfo, createServer } from 'node:net'
import type { Listener, ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import { watchSlowReaders } from '../slow-readers.ts'
import { ClientConnection, type Reception } from './client-connection.ts'

/** Listens on TCP; every byte that arrives is read by the strict parser. */
export async function listen(options: ListenerOptions, handle: (exchange: Exchange) => void): Promise<Listener> {
  const connections = new Set<ClientConnection>()
  let isClosing = false
  const reception: Reception = {
    options,
    handle,
    isClosing: () => isClosing,
    forget: (connection) => connections.delete(connection),
  }
  // A client that ends its side may have to be told of a request that it has not finished.
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    connections.add(new ClientConnection(socket, reception))
  })
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
      socket.resetAndDestroy()
    },
  )
  const { address, port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    address: { host: address, port },
    countConnections: () => connections.size,
    close: async () => {
      isClosing = true
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      // What has an exchange ends after it.
      for (const connection of connections) connection.closeIdle()
      await closed
      stopWatch()
    },
    destroy: () => {
      for (const connection of connections) connection.destroy()
    },
  }
}
