import type { Socket } from 'node:net'

/** Writes bytes, or text that stands for bytes; false where the other side takes no more for now. */
export function writeTo(socket: Socket, bytes: string | Buffer, onLeft?: (error?: Error | null) => void): boolean {
  const hasRoom = typeof bytes === 'string' ? socket.write(bytes, 'latin1', onLeft) : socket.write(bytes, onLeft)
  // Node counts what has just left as if it were waiting.
  return hasRoom || socket.writableLength === 0
}

/** True while the other side takes nothing: `drain` will say when it does. */
export const isCongested = (socket: Socket): boolean => socket.writableNeedDrain && socket.writableLength > 0
