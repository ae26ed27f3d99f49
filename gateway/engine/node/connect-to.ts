import type { buildConnector } from 'undici'
import type { Origin } from '../origin.ts'

/** As undici reads: more on plain TCP than in a record of TLS. */
const readBytes = { plain: 64 * 1024, encrypted: 16 * 1024 }

/**
 * Opens connections for undici. Its own way takes the name for SNI, and for the check of the certificate, from the `Host`
 * line of the request, which may be the client's.
 */
export const connectTo =
  (origin: Origin, timeoutMs: number): buildConnector.connector =>
  (_options, callback) => {
    const highWaterMark = origin.isEncrypted ? readBytes.encrypted : readBytes.plain
    const socket = origin.open({ highWaterMark })
    let isSettled = false
    const settle = (error: Error | undefined): void => {
      if (isSettled) return
      isSettled = true
      clearTimeout(timer)
      if (error) socket.destroy()
      if (error) callback(error, null)
      else callback(null, socket)
    }
    const timer = setTimeout(() => settle(new Error('connect time-out')), timeoutMs)
    // Stays: undici hangs its own listener on it a little later.
    socket.on('error', settle)
    socket.once(origin.openEvent, () => settle(undefined))
  }
