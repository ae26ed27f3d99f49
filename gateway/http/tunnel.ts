import type { Socket } from 'node:net'
import { guarded } from '../fault/guarded.ts'
import { Holding, type MemoryAccount, type UpgradedConnection } from './exchange.ts'
import { closeLingering } from './socket/close-lingering.ts'
import { HandleGate, type ReadGate } from './socket/read-gate.ts'
import { notePartner } from './socket/transport.ts'

/** An upstream's socket that has left HTTP after a 101. */
export class UpgradedSocket implements UpgradedConnection {
  readonly socket: Socket

  constructor(socket: Socket) {
    this.socket = socket
    // A reset would otherwise end the process; `close` follows and says enough.
    socket.on('error', () => {})
  }

  destroy(): void {
    this.socket.destroy()
  }
}

/** One side of a tunnel. */
export type TunnelEnd = Readonly<{
  socket: Socket
  gate: ReadGate
  /** Has what arrives given to a listener, to keep. */
  listen: (listener: (bytes: Buffer) => void) => void
}>

/** Of a paused socket that is one like any other. */
export const endOf = (socket: Socket): TunnelEnd => ({
  socket,
  gate: new HandleGate(socket),
  listen: (listener) =>
    void socket.on(
      'data',
      guarded('client', listener, () => socket.destroy()),
    ),
})

/** Two connections that are one. */
export type Tunnel = Readonly<{
  /** Whether both ends have said their last word, rather than broken off or been cut. */
  isWhole: () => boolean
}>

/**
 * Passes bytes both ways, at the pace of the slower side. What the client said before its 101 goes first. The bytes
 * are opaque: whoever ends or breaks a side ends the other, with what was said before.
 */
export function pipeBoth(
  clientEnd: TunnelEnd,
  upstreamEnd: TunnelEnd,
  early: Buffer,
  idleMs: number,
  account: MemoryAccount,
): Tunnel {
  const { socket: client } = clientEnd
  const { socket: upstream } = upstreamEnd
  notePartner(client, upstream)
  const waiting = new Holding(account)
  const count = (): void => waiting.set(waitingBytes(client) + waitingBytes(upstream))
  if (early.length > 0) upstream.write(early)
  pass(clientEnd, upstream, count)
  pass(upstreamEnd, client, count)
  count()
  // Every byte passes the client's socket, one way or the other: its clock counts for both.
  const cut = (): void => {
    client.destroy()
    upstream.destroy()
  }
  const onClientClose = (): void => {
    count()
    if (!client.readableEnded) {
      upstream.destroy()
      return
    }
    upstream.setTimeout(idleMs, () => upstream.destroy())
    closeLingering(upstream)
  }
  const onUpstreamClose = (): void => {
    count()
    closeLingering(client)
  }
  client.setTimeout(idleMs, guarded('client', cut))
  client.once('close', guarded('client', onClientClose, cut))
  upstream.once('close', guarded('upstream', onUpstreamClose, cut))
  return { isWhole: () => client.readableEnded && upstream.readableEnded }
}

const waitingBytes = ({ destroyed, writableLength, readableLength }: Socket): number =>
  destroyed ? 0 : writableLength + readableLength

/** One way, from socket to socket: as `pipe` does, but that nothing more is read while the other side takes nothing. */
function pass({ socket, gate, listen }: TunnelEnd, to: Socket, count: () => void): void {
  listen((bytes) => {
    if (!to.writable || to.write(bytes)) return
    gate.close()
    count()
  })
  const cut = (): void => {
    socket.destroy()
    to.destroy()
  }
  const onDrain = (): void => {
    count()
    gate.open()
  }
  to.on('drain', guarded('client', onDrain, cut))
  // The rest has nowhere to go.
  to.on(
    'close',
    guarded('client', () => gate.open(), cut),
  )
  socket.on(
    'end',
    guarded('client', () => to.end(), cut),
  )
  gate.open()
}
