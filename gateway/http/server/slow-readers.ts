import type { Socket } from 'node:net'
import { guarded } from '../../base/fault/guarded.ts'
import { TimeSlicer } from '../../base/lib/time-slicer.ts'
import { transportOf } from '../socket/transport.ts'

/** Checks within the time-out. A client that takes too little through all of them is cut. */
const checks = 4

/** The write counters of libuv: Node counts a write only once it is complete. */
type Handle = Readonly<{ bytesWritten: number; writeQueueSize: number }>

type Mark = Readonly<{ takenBytes: number; count: number }>

export type MinDataRate = Readonly<{
  idleMs: number
  bytesPerSecond: number
}>

/**
 * Calls back for each socket whose peer has taken too little of its buffered bytes for this long. A client that reads a
 * byte now and then would hold its upstream forever. Watches connections rather than responses, since a whole response
 * may wait in the socket. Returns a function that stops the watch.
 */
export function watchSlowReaders(
  visitSockets: (visit: (socket: Socket) => void) => void,
  { idleMs, bytesPerSecond }: MinDataRate,
  onStalled: (socket: Socket) => void,
): () => void {
  const leastBytes = Math.max(1, (bytesPerSecond * idleMs) / 1_000)
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

function countTaken(socket: Socket): number {
  // TLS passes on whole records, so only its transport knows what has left. Node's types omit the handle.
  const { _handle } = transportOf(socket) as unknown as { _handle?: Handle | null }
  return _handle ? _handle.bytesWritten - _handle.writeQueueSize : 0
}
