import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net'
import { reportFault } from '../../base/fault/guarded.ts'
import { inputBytes } from '../parser/llhttp.ts'

/** A socket's listener is done with the bytes before another socket reads, so one buffer serves all. */
const readBuffer = Buffer.allocUnsafeSlow(inputBytes)

/** Size of reads for heads, and for clients that may take nothing. */
export const smallReadBytes = 16 * 1024

/** The largest next read. `sparing` is for connections that hold too much memory. */
export type ReadSize = 'sparing' | 'small' | 'large'

const buffers: Readonly<Record<ReadSize, Buffer>> = {
  sparing: readBuffer.subarray(0, 4 * 1024),
  small: readBuffer.subarray(0, smallReadBytes),
  large: readBuffer,
}

export type SharedReader = Readonly<{
  onRead: (bytes: Buffer) => boolean
  chooseSize: () => ReadSize
}>

const readerKey = Symbol('reader')

type Read = Socket & { [readerKey]?: SharedReader }

export const setSharedReader = (socket: Socket, reader: SharedReader): void => {
  Object.assign(socket, { [readerKey]: reader })
}

/** Node passes the socket to the first callback alone, and calls the second right after it. */
let lastReader: SharedReader | undefined
let lastBuffer: Uint8Array | undefined

function takeBytes(this: Read, length: number, buffer: Uint8Array): boolean {
  const reader = this[readerKey]
  try {
    return reader?.onRead(readBuffer.subarray(0, length)) ?? false
  } catch (error) {
    reportFault('client', error)
    return false
  } finally {
    lastReader = reader
    lastBuffer = buffer
  }
}

function chooseBuffer(): Buffer | undefined {
  const reader = lastReader
  lastReader = undefined
  const chosen = buffers[reader?.chooseSize() ?? 'small']
  // Node keeps its buffer where it gets undefined, which saves a check of the new one.
  return reader && chosen === lastBuffer ? undefined : chosen
}

export const sharedReads: OnReadOpts = {
  buffer: chooseBuffer as () => Buffer, // Node takes undefined, too
  callback: takeBytes,
}

type Accepted = { _handle: object | null; _server: object | null; server: object | null }
type AcceptedOptions = SocketConstructorOpts & Readonly<Record<string, unknown>>

/**
 * Moves an accepted connection to a socket that reads into the shared buffer. `net.connect` has `onread` for that, but
 * `net.Server` has not: each read would allocate 64 KiB, a tenth of a request's cost. So the handle moves to a new
 * socket, made as the server makes its own. Undefined where the connection has no handle, and is left as it was.
 */
export function shareReads(accepted: Socket, reader: SharedReader): Socket | undefined {
  const first = accepted as unknown as Accepted
  const { _handle: handle, _server: server } = first
  if (!handle || !server) return undefined
  const options: AcceptedOptions = {
    handle,
    onread: sharedReads,
    pauseOnCreate: true,
    allowHalfOpen: accepted.allowHalfOpen,
    readableHighWaterMark: accepted.readableHighWaterMark,
    writableHighWaterMark: accepted.writableHighWaterMark,
  }
  lastReader = reader
  lastBuffer = undefined
  const socket = new Socket(options)
  setSharedReader(socket, reader)
  Object.assign(socket, { _server: server, server } satisfies Omit<Accepted, '_handle'>)
  Object.assign(first, { _handle: null, _server: null, server: null } satisfies Accepted)
  return socket
}
