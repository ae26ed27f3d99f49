import type { Socket } from 'node:net'
import { guarded } from '../../base/fault/guarded.ts'

/** Several round trips around the world: a peer has read the last response by then and closes. */
const lingerMs = 1_000

/** Time before a reset, which must come within a second. */
const resetAfterMs = 700

/**
 * Ends a connection gracefully: flushes writes, drains reads, and closes soon after. A bare destroy would reset it over
 * unread bytes, and the peer would lose the last response. A `reset` as the end also drops what the peer has not taken.
 */
export function closeLingering(socket: Socket, reset?: (socket: Socket) => void): void {
  if (socket.destroyed) return
  socket.resume()
  socket.end(
    guarded('client', () => {
      const end = guarded('client', () => (reset ? reset(socket) : socket.destroy()))
      const timer = setTimeout(end, reset ? resetAfterMs : lingerMs)
      socket.once('close', () => clearTimeout(timer))
    }),
  )
}
