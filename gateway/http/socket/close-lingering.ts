import type { Socket } from 'node:net'
import { guarded } from '../../fault/guarded.ts'

/** How long a peer may take to close a connection that we have ended. */
const lingerMs = 1_000

/**
 * Ends a connection in peace: what was written goes out, what still comes is dropped, and soon after it closes for
 * good. A bare destroy resets it when something arrived unread, and takes our last bytes away from the peer.
 */
export function closeLingering(socket: Socket): void {
  if (socket.destroyed) return
  socket.resume()
  socket.end(
    guarded('client', () => {
      const timer = setTimeout(() => socket.destroy(), lingerMs)
      socket.once('close', () => clearTimeout(timer))
    }),
  )
}
