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
    const fail = (error: Error): void => {
      clearTimeout(timer)
      socket.destroy()
      callback(error, null)
    }
    const timer = setTimeout(() => fail(new Error('connect time-out')), timeoutMs)
    const onError = (error: Error): void => fail(error)
    socket.once('error', onError)
    socket.once(origin.openEvent, () => {
      clearTimeout(timer)
      socket.off('error', onError)
      // Undici hangs its own listeners on it a little later.
      socket.on('error', ignore)
      callback(null, socket)
    })
  }

const ignore = (): void => {}
