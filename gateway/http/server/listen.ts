// The client's side: listeners, their connections, and who gives way when places or memory are short.
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer } from 'node:tls'
import { guarded, reportFault } from '../../base/fault/guarded.ts'
import { inSlices } from '../../base/lib/in-slices.ts'
import { TimeSlicer } from '../../base/lib/time-slicer.ts'
import { UnorderedList } from '../../base/lib/unordered-list.ts'
import type { Listener, ListenerOptions } from '../engine.ts'
import type { Exchange } from '../exchange.ts'
import type { MemoryBudget } from '../memory-budget.ts'
import { keepAliveProbeMs, resetConnection, transportOf } from '../socket/transport.ts'
import { type Handshakes, watchHandshakes } from '../tls/handshakes.ts'
import { composeServerOptions, type ListenerTls, replaceIdentity } from '../tls/server.ts'
import { Admission } from './admission.ts'
import { ClientConnection, type ListenerContext } from './client-connection.ts'
import { type Busy, watchSilentPeers } from './silent-peers.ts'
import { watchSlowReaders } from './slow-readers.ts'

/** Buffer for a slow client before its upstream is paused. From Node 22 on the default is four times as large. */
const highWaterMark = 16 * 1024

/** A new connection costs later turns some ten times as much: its first request, and an upstream connection. */
const newcomersShare = 1 / 20

/** Even short turns admit newcomers. The most is what arrivals have of a turn (docs/explanation/budgets.md). */
const leastPartMs = 0.05
const mostPartMs = 1

/** A share of the turn, not a fixed time: a crowd makes turns longer, and open connections would wait for it. */
const chooseNewcomersPart = (turnMs: number): number =>
  Math.min(mostPartMs, Math.max(leastPartMs, turnMs * newcomersShare))

/** Interval for counting the bytes buffered for clients, who may take more at any time. */
const countEveryMs = 500

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
  const admission = createAdmission(options)
  const accept = guarded(
    'listener',
    (socket: Socket): void => {
      if (!socket.destroyed) new ClientConnection(socket, context, admission?.placeOf(transportOf(socket)))
    },
    (socket) => socket.destroy(),
  )
  const arriving = new TimeSlicer(accept, undefined, () => performance.now(), chooseNewcomersPart)
  const { server, handshakes } = options.tls
    ? openSecure(options, options.tls, accept, admission)
    : open(
        guarded('listener', (socket: Socket) => arriving.add(socket)),
        admission,
      )
  if (!admission) dropNewcomers(server, options)
  await startListening(server, options)
  const stopWatches = watchConnections(connections, options)
  const { address, port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    address: { host: address, port },
    keepPlacesFor: (peer) => admission?.keepPlacesFor(peer),
    countConnections: handshakes?.count ?? (() => connections.size),
    replaceIdentity: distrustEarlier(replaceIdentity(server, options.tls), options.tls, () => {
      handshakes?.cut()
      for (const connection of connections) connection.forgetCertificate()
    }),
    close: async () => {
      isClosing = true
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      handshakes?.cut()
      for (const socket of arriving.clear()) socket.destroy()
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

/** Node itself closes what is beyond the limit, so that no newcomer may displace another. */
function dropNewcomers(server: Server, { maxConnections, onDropped }: ListenerOptions): void {
  server.maxConnections = maxConnections
  server.on(
    'drop',
    guarded('listener', () => onDropped('limit')),
  )
}

const createAdmission = ({ displacesIdle, maxConnections, onDropped }: ListenerOptions): Admission | undefined =>
  displacesIdle ? new Admission({ limit: maxConnections, onDropped, monotonicMs: () => performance.now() }) : undefined

function distrustEarlier(
  replace: Listener['replaceIdentity'],
  tls: ListenerTls | undefined,
  distrust: () => void,
): Listener['replaceIdentity'] {
  let clientCa = tls?.identity.clientCa
  return (identity) => {
    replace(identity)
    if (identity.clientCa === clientCa) return
    clientCa = identity.clientCa
    distrust()
  }
}

const startListening = (server: Server, { host, port }: ListenerOptions): Promise<void> =>
  new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    const onListening = (): void => {
      server.off('error', reject)
      // A failed accept would end the process without a listener.
      server.on('error', (error) => reportFault('listener', error))
      resolve()
    }
    server.listen({ host, port, backlog: 4096 }, guarded('listener', onListening))
  })

function watchConnections(connections: UnorderedList<ClientConnection>, options: ListenerOptions): () => void {
  const cutStalled = (socket: Socket): void => {
    options.onDropped('stalled')
    // A plain close would leave the system sending to a peer that takes nothing.
    resetConnection(socket)
  }
  const stopWatch = watchSlowReaders(
    (visit) => connections.visit(({ socket }) => visit(socket)),
    { idleMs: options.clientIdleTimeoutMs, bytesPerSecond: options.minResponseBytesPerSecond },
    cutStalled,
  )
  const listBusy = function* (): Iterable<Busy> {
    for (const { socket, work } of connections) if (work) yield { socket, work }
  }
  const stopSilentWatch = watchSilentPeers(listBusy, options.clientIdleTimeoutMs, cutStalled)
  const countOne = (connection: ClientConnection): void => connection.count()
  let isCounting = false
  const countAll = async (): Promise<void> => {
    if (isCounting) return
    isCounting = true
    await inSlices(connections, countOne).finally(() => {
      isCounting = false
    })
  }
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

function open(accept: (socket: Socket) => void, admission: Admission | undefined): Opened {
  // With half-open connections a client that ends its side still learns of its incomplete request. A paused connection
  // is not read before it is accepted here.
  const settings = { ...everyConnection, allowHalfOpen: true, pauseOnConnect: true }
  const acceptIfAdmitted = (socket: Socket): void => {
    if (admission?.admit(socket) !== false) accept(socket)
  }
  return { server: createServer(settings, admission ? acceptIfAdmitted : accept) }
}

function openSecure(
  { onDropped }: ListenerOptions,
  tls: ListenerTls,
  accept: (socket: Socket) => void,
  admission: Admission | undefined,
): Opened {
  const server = createSecureServer({ ...everyConnection, ...composeServerOptions(tls) })
  // Registered first: a refused connection must not be read.
  const handshakes = watchHandshakes(server, () => onDropped('handshake'))
  // Before its handshake a connection takes a place already, and its silence must not keep others out.
  if (admission)
    server.on(
      'connection',
      guarded('listener', (transport: Socket) => void admission.admit(transport), destroy),
    )
  server.on('secureConnection', accept)
  return { server, handshakes }
}

const destroy = (socket: Socket): void => void socket.destroy()
