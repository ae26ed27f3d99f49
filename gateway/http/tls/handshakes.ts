import type { Socket } from 'node:net'
import type { Server, TLSSocket } from 'node:tls'
import { guarded } from '../../base/fault/guarded.ts'
import { noteTransport } from '../socket/transport.ts'

export type Handshakes = Readonly<{
  count: () => number
  cut: () => void
}>

/**
 * Closes connections that Node leaves open. Node reports a failed or late handshake, but keeps its connection, and it
 * accepts a certificate that does not verify where none is required.
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
    // Half-open as on plain HTTP. Set earlier, it would keep a client that leaves during its handshake.
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
    // A port check leaves like this. Node emits the same error when it refuses a certificate.
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

/** A TLS socket does not expose its transport, but both have the same peer. */
const keyOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
