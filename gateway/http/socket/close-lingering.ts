import type { Socket } from 'node:net'
import { guarded } from '../../fault/guarded.ts'

/** Time for a peer to close after the gateway has. */
const lingerMs = 1_000

/**
 * Ends a connection gracefully: flushes writes, drains reads, and closes soon after. A bare destroy would reset it over
 * unread bytes, and the peer would lose the last response.
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
