import type { Socket } from 'node:net'

/** Silence after which the system asks whether a peer is still there: one probe a second, given up after ten (libuv). */
export const keepAliveProbeMs = 30_000

const transports = new WeakMap<Socket, Socket>()

/** Remembers which TCP socket carries a connection on TLS. */
export const noteTransport = (socket: Socket, transport: Socket): void => {
  transports.set(socket, transport)
}

/** The TCP socket of a connection: itself, but where TLS lies above it. */
export const transportOf = (socket: Socket): Socket => transports.get(socket) ?? socket

const partners = new WeakMap<Socket, Socket>()

/** Remembers that a client's connection and one to an upstream are one. */
export const notePartner = (client: Socket, upstream: Socket): void => {
  partners.set(client, upstream)
}

/** The connection to an upstream that a client's was joined to. */
export const partnerOf = (client: Socket): Socket | undefined => partners.get(client)

/** Closes a connection by a reset. Node knows none on TLS: it is one of the transport below. */
export function resetConnection(socket: Socket): void {
  transportOf(socket).resetAndDestroy()
}
