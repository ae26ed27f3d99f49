import type { Socket } from 'node:net'
import type { UpgradedConnection } from './exchange.ts'
import { retire } from './retire.ts'

/** An upstream's socket that undici has let go of after a 101. */
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

/** Two connections that are one. */
export type Tunnel = Readonly<{
  /** Whether both ends have said their last word, rather than broken off or been cut. */
  isWhole: () => boolean
}>

/**
 * Passes bytes both ways, at the pace of the slower side. What the client said before its 101 goes first. The bytes
 * are opaque: whoever ends or breaks a side ends the other, with what was said before.
 */
export function joinSockets(client: Socket, upstream: Socket, early: Buffer, idleMs: number): Tunnel {
  if (early.length > 0) upstream.write(early)
  client.pipe(upstream)
  upstream.pipe(client)
  // Every byte passes the client's socket, one way or the other: its clock counts for both.
  client.setTimeout(idleMs, () => {
    client.destroy()
    upstream.destroy()
  })
  client.once('close', () => {
    if (!client.readableEnded) {
      upstream.destroy()
      return
    }
    upstream.setTimeout(idleMs, () => upstream.destroy())
    retire(upstream)
  })
  upstream.once('close', () => retire(client))
  return { isWhole: () => client.readableEnded && upstream.readableEnded }
}
