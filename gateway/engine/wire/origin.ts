import { connect, isIP, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'

/** Where an upstream listens. */
export type Origin = Readonly<{
  /** As `Host` says it. */
  authority: string
  isEncrypted: boolean
  /** Opens a connection, on which `onRead` is given what arrives: bytes that are another's as soon as it returns. */
  open: (onRead: ((bytes: Buffer) => void) | undefined) => Socket
}>

/** A socket reads, and its listener has done with the bytes, before another socket reads: so one buffer is enough. */
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024)

const keepAliveProbeMs = 60_000

export function readOrigin(text: string): Origin {
  const { protocol, hostname, port } = new URL(text)
  const isEncrypted = protocol === 'https:'
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  const address = { host, port: Number(port || (isEncrypted ? 443 : 80)), noDelay: true, keepAlive: true } as const
  const authority = port === '' ? hostname : `${hostname}:${port}`
  if (isEncrypted) return { authority, isEncrypted, open: secureOpener(host, address.port) }
  return {
    authority,
    isEncrypted,
    open: (onRead) =>
      connect({ ...address, keepAliveInitialDelay: keepAliveProbeMs, ...(onRead && { onread: readInto(onRead) }) }),
  }
}

const readInto = (onRead: (bytes: Buffer) => void): OnReadOpts => ({
  buffer: readBuffer,
  callback: (length) => {
    onRead(readBuffer.subarray(0, length))
    return true
  },
})

/** Resumes the last session of the origin. */
function secureOpener(host: string, port: number): Origin['open'] {
  let session: Buffer | undefined
  return () => {
    const socket = connectSecurely({
      host,
      port,
      ALPNProtocols: ['http/1.1'],
      ...(isIP(host) === 0 && { servername: host }),
      ...(session && { session }),
    })
    socket.setNoDelay(true)
    socket.setKeepAlive(true, keepAliveProbeMs)
    socket.on('session', (fresh) => {
      session = fresh
    })
    return socket
  }
}
