import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net'
import { reportFault } from '../../fault/guarded.ts'
import { inputBytes } from '../parser/llhttp.ts'

/** A socket reads, and its listener has done with the bytes, before another socket reads: so one buffer is enough. */
const readBuffer = Buffer.allocUnsafeSlow(inputBytes)

/** What is read at once where little is expected, or may have to be kept: for a head, or for a client that takes nothing. */
export const smallReadBytes = 16 * 1024

/** The most that is read at once: `sparing` of those for whom too much is kept already. */
export type ReadSize = 'sparing' | 'small' | 'large'

const buffers: Readonly<Record<ReadSize, Buffer>> = {
  sparing: readBuffer.subarray(0, 4 * 1024),
  small: readBuffer.subarray(0, smallReadBytes),
  large: readBuffer,
}

/** What reads from a socket into the buffer that all share. */
export type SharedReader = Readonly<{
  /** Given bytes that are another's as soon as it returns. Where it returns false, reading stops until it is resumed. */
  onRead: (bytes: Buffer) => boolean
  /** Asked before each read how large it may be. */
  chooseSize: () => ReadSize
}>

const readerKey = Symbol('reader')

type Read = Socket & { [readerKey]?: SharedReader }

/** To be called before anything can arrive. */
export const setSharedReader = (socket: Socket, reader: SharedReader): void => {
  Object.assign(socket, { [readerKey]: reader })
}

/** Of the callbacks below, Node gives the socket to the first alone, and calls the second right behind it. */
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
  // Node keeps the buffer that it has where it is given none: that spares it a look at it.
  return reader && chosen === lastBuffer ? undefined : chosen
}

/** For a socket whose reader is set before anything can arrive: one object for all of them. */
export const sharedReads: OnReadOpts = {
  buffer: chooseBuffer as () => Buffer, // Node takes undefined, too
  callback: takeBytes,
}

/** What Node's own server gives a socket that it accepts, and its types keep to themselves. */
type Accepted = { _handle: object | null; _server: object | null; server: object | null }
type AcceptedOptions = SocketConstructorOpts & Readonly<Record<string, unknown>>

/**
 * The same connection, not read from yet, with its bytes in the buffer that all share. `net.connect` has `onread` for that
 * and `net.Server` has nothing, so that every read would take 64 KiB of memory of its own: a tenth of a request's cost.
 * So what the server has accepted is made a socket once more, in the way of the server itself, and the first one is let
 * go of. Undefined where this cannot be done: then the connection is as it was.
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
  // Node asks for the first buffer meanwhile.
  lastReader = reader
  lastBuffer = undefined
  const socket = new Socket(options)
  setSharedReader(socket, reader)
  // The server counts its connections by those that say whose they are.
  Object.assign(socket, { _server: server, server } satisfies Omit<Accepted, '_handle'>)
  Object.assign(first, { _handle: null, _server: null, server: null } satisfies Accepted)
  return socket
}
