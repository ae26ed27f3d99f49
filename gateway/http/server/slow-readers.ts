import type { Socket } from 'node:net'
import { guarded } from '../../fault/guarded.ts'
import { TimeSlicer } from '../../lib/time-slicer.ts'
import { transportOf } from '../socket/transport.ts'

/** Checks per idle window: a client that makes too little progress in all of them is cut. */
const checks = 4

/** What libuv was given to write, and has not yet: node counts a write only once it is whole. */
type Handle = Readonly<{ bytesWritten: number; writeQueueSize: number }>

/** How far a peer was when its time began, and how many checks ago that was. */
type Mark = Readonly<{ takenBytes: number; count: number }>

export type MinDataRate = Readonly<{
  idleMs: number
  /** On average over that time; 0: any byte will do. */
  bytesPerSecond: number
}>

/**
 * Calls back for each socket whose peer has taken too little, for so long, of what is waiting for it: by reading nothing,
 * or a byte now and then, a client would else hold its upstream for ever. By the connection and not by the answer, since
 * a whole answer may wait in the socket as well. Returns what ends the watch.
 */
export function watchSlowReaders(
  visitSockets: (visit: (socket: Socket) => void) => void,
  { idleMs, bytesPerSecond }: MinDataRate,
  onStalled: (socket: Socket) => void,
): () => void {
  const leastBytes = Math.max(1, (bytesPerSecond * idleMs) / 1_000)
  // What the system kept for each of them is given back by the cut itself, and takes its time.
  const stalled = new TimeSlicer<Socket>(onStalled)
  const marks = new WeakMap<Socket, Mark>()
  const check = (socket: Socket): void => {
    if (socket.writableLength === 0) {
      marks.delete(socket)
      return
    }
    const takenBytes = countTaken(socket)
    const mark = marks.get(socket)
    if (!mark || takenBytes - mark.takenBytes >= leastBytes) marks.set(socket, { takenBytes, count: 0 })
    else if (mark.count + 1 < checks) marks.set(socket, { ...mark, count: mark.count + 1 })
    else {
      marks.delete(socket)
      stalled.add(socket)
    }
  }
  const checkAll = (): void => visitSockets(check)
  const timer = setInterval(guarded('timer', checkAll), Math.max(1, idleMs / checks))
  timer.unref()
  return () => clearInterval(timer)
}

/** Grows by every byte that the peer has made room for. */
function countTaken(socket: Socket): number {
  // TLS itself hands over whole records: only the transport knows what has left.
  const { _handle } = transportOf(socket) as unknown as { _handle?: Handle | null } // not in node's types
  return _handle ? _handle.bytesWritten - _handle.writeQueueSize : 0
}
