import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** Silence after which the system sends keep-alive probes: one a second, ten at most (libuv). */
export const keepAliveProbeMs = 30_000

const transports = new WeakMap<Socket, Socket>()

export const noteTransport = (socket: Socket, transport: Socket): void => {
  transports.set(socket, transport)
}

export const transportOf = (socket: Socket): Socket => transports.get(socket) ?? socket

const tunnelUpstreams = new WeakMap<Socket, Socket>()

export const noteTunnel = (client: Socket, upstream: Socket): void => {
  tunnelUpstreams.set(client, upstream)
}

export const tunnelUpstreamOf = (client: Socket): Socket | undefined => tunnelUpstreams.get(client)

/**
 * Resets a connection. Node cannot reset TLS, so the transport below is reset. That of an outgoing connection is inside
 * Node, where `resetAndDestroy` throws: such a connection is closed.
 */
export function resetConnection(socket: Socket): void {
  const transport = transportOf(socket)
  if (transport instanceof TLSSocket) transport.destroy()
  else transport.resetAndDestroy()
}
