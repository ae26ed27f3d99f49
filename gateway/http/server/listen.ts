import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer } from 'node:tls'
import { guarded, reportFault } from '../../fault/guarded.ts'
import { TimeSlicer } from '../../lib/time-slicer.ts'
import { UnorderedList } from '../../lib/unordered-list.ts'
import type { Listener, ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import type { MemoryBudget } from '../memory-budget.ts'
import { keepAliveProbeMs, resetConnection } from '../socket/transport.ts'
import { type Handshakes, watchHandshakes } from '../tls/handshakes.ts'
import { composeServerOptions, type ListenerTls, replaceIdentity } from '../tls/server.ts'
import { ClientConnection, type ListenerContext } from './client-connection.ts'
import { type Busy, watchSilentPeers } from './silent-peers.ts'
import { watchSlowReaders } from './slow-readers.ts'

/** What may wait for a slow client before its upstream is held up. From Node 22 on the default is four times as much. */
const highWaterMark = 16 * 1024

/** Each connection costs the turns after its own some ten times as much: its first request, and one to an upstream. */
const newcomersShare = 1 / 20
const leastPartMs = 0.05
const mostPartMs = 1

/** A share of the turn and not a fixed time: else a crowd makes turns longer, and all that are here wait for it. */
const chooseNewcomersPart = (turnMs: number): number =>
  Math.min(mostPartMs, Math.max(leastPartMs, turnMs * newcomersShare))

/** How often it is looked at what waits for clients that may take more at any time. */
const countEveryMs = 500

/** Listens on TCP, or TLS; every byte that arrives is read by the strict parser. */
export async function listen(
  options: ListenerOptions,
  handle: (exchange: Exchange) => void,
  memory: MemoryBudget,
): Promise<Listener> {
  const connections = new UnorderedList<ClientConnection>()
  let isClosing = false
  const context: ListenerContext = {
    options,
    memory,
    handle,
    isClosing: () => isClosing,
    connections,
  }
  const accept = guarded(
    'listener',
    (socket: Socket): void => {
      if (!socket.destroyed) new ClientConnection(socket, context)
    },
    (socket) => socket.destroy(),
  )
  // Of a crowd that comes at once, the others wait for those who are here already.
  const arriving = new TimeSlicer(accept, undefined, () => performance.now(), chooseNewcomersPart)
  const { server, handshakes } = options.tls
    ? openSecure(options, options.tls, accept)
    : open(guarded('listener', (socket: Socket) => arriving.add(socket)))
  server.maxConnections = options.maxConnections
  server.on(
    'drop',
    guarded('listener', () => options.onDropped('limit')),
  )
  await startListening(server, options)
  const stopWatches = watchConnections(connections, options)
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
      stopWatches()
    },
    destroy: () => {
      handshakes?.cut()
      for (const socket of arriving.clear()) socket.destroy()
      for (const connection of connections) connection.destroy()
    },
  }
}

/** Rejects where the address is not to be had. */
const startListening = (server: Server, { host, port }: ListenerOptions): Promise<void> =>
  new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    const onListening = (): void => {
      server.off('error', reject)
      // The system could not accept one; unheard, that would end the process.
      server.on('error', (error) => reportFault('listener', error))
      resolve()
    }
    server.listen({ host, port, backlog: 4096 }, guarded('listener', onListening))
  })

/** Cuts clients that take nothing, and counts what is held for the others. Returns what ends that. */
function watchConnections(connections: UnorderedList<ClientConnection>, options: ListenerOptions): () => void {
  const cutStalled = (socket: Socket): void => {
    options.onDropped('stalled')
    // A plain close would leave the system trying to send what nobody takes.
    resetConnection(socket)
  }
  const stopWatch = watchSlowReaders(
    (visit) => connections.visit(({ socket }) => visit(socket)),
    { idleMs: options.clientIdleTimeoutMs, bytesPerSecond: options.minResponseBytesPerSecond },
    cutStalled,
  )
  const visitBusy = (visit: (busy: Busy) => void): void =>
    connections.visit(({ socket, work }) => {
      if (work) visit({ socket, work })
    })
  const stopSilentWatch = watchSilentPeers(visitBusy, options.clientIdleTimeoutMs, cutStalled)
  const countOne = (connection: ClientConnection): void => connection.count()
  const countAll = (): void => connections.visit(countOne)
  const counting = setInterval(guarded('timer', countAll), countEveryMs)
  counting.unref()
  return () => {
    stopWatch()
    stopSilentWatch()
    clearInterval(counting)
  }
}

const everyConnection = { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveProbeMs, highWaterMark }

type Opened = Readonly<{ server: Server; handshakes?: Handshakes }>

function open(accept: (socket: Socket) => void): Opened {
  // A client that ends its side may have to be told of a request that it has not finished. Nothing is read of a
  // connection, and nothing can happen to it, before it is taken.
  return { server: createServer({ ...everyConnection, allowHalfOpen: true, pauseOnConnect: true }, accept) }
}

/** Connections come one by one, as their handshakes end. */
function openSecure({ onDropped }: ListenerOptions, tls: ListenerTls, accept: (socket: Socket) => void): Opened {
  const server = createSecureServer({ ...everyConnection, ...composeServerOptions(tls) })
  // Before anybody takes its connections: one that is refused must not be read from.
  const handshakes = watchHandshakes(server, () => onDropped('handshake'))
  server.on('secureConnection', accept)
  return { server, handshakes }
}
