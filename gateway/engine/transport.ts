import type { Socket } from 'node:net'

const transports = new WeakMap<Socket, Socket>()

/** Remembers which TCP socket carries a connection on TLS. */
export const noteTransport = (socket: Socket, transport: Socket): void => {
  transports.set(socket, transport)
}

/** The TCP socket of a connection: itself, but where TLS lies above it. */
export const transportOf = (socket: Socket): Socket => transports.get(socket) ?? socket

/** Closes a connection by a reset. Node knows none on TLS: it is one of the transport below. */
export function resetConnection(socket: Socket): void {
  transportOf(socket).resetAndDestroy()
}
