import type { Socket } from 'node:net'
import type { Server, TLSSocket } from 'node:tls'
import { guarded } from '../../fault/guarded.ts'
import { noteTransport } from '../socket/transport.ts'

/** The connections of a server on TLS, from before their handshakes on. */
export type Handshakes = Readonly<{
  /** How many connections are open, handshakes included. */
  count: () => number
  /** Breaks the handshakes that are under way. */
  cut: () => void
}>

/**
 * Watches over what Node leaves open: a handshake that failed or took too long is told, but its connection stays; one
 * with a certificate that does not verify goes on where none is required.
 */
export function watchHandshakes(server: Server, onFailed: () => void): Handshakes {
  const shaking = new Map<string, Socket>()
  let open = 0
  const begin = (transport: Socket): void => {
    const key = keyOf(transport)
    open += 1
    shaking.set(key, transport)
    const end = (): void => {
      open -= 1
      if (shaking.get(key) === transport) shaking.delete(key)
    }
    transport.once('close', guarded('listener', end))
  }
  const agree = (socket: TLSSocket): void => {
    const key = keyOf(socket)
    const transport = shaking.get(key)
    if (transport) noteTransport(socket, transport)
    shaking.delete(key)
    // As on plain HTTP; from the start it would keep whoever leaves in its handshake.
    socket.allowHalfOpen = true
    if (socket.authorized || socket.getPeerX509Certificate() === undefined) return
    onFailed()
    socket.destroy()
  }
  const destroy = (socket: Socket): void => void socket.destroy()
  server.on('connection', guarded('listener', begin, destroy))
  server.on('secureConnection', guarded('listener', agree, destroy))
  const refuse = (error: NodeJS.ErrnoException, socket: TLSSocket): void => {
    socket.destroy()
    // Whoever just looks whether the port is open leaves like this. Node also calls it so when it refuses a certificate.
    const hasLeft = error.code === 'ECONNRESET' && !socket.authorizationError
    if (!hasLeft) onFailed()
  }
  server.on('tlsClientError', guarded('listener', refuse))
  return {
    count: () => open,
    cut: () => {
      for (const transport of shaking.values()) transport.destroy()
    },
  }
}

/** A TLS socket does not tell its transport, but is seen at the same peer. */
const keyOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
