import { connect, type Socket } from 'node:net'
import type { Owner } from '../support/owner.ts'

export type SlowPace = Readonly<{ bytes: number; everyMs: number }>

/**
 * A client that takes so many bytes from its connection, and then pauses. The system's own buffers hold more for it;
 * nothing is read ahead of it here.
 */
export function connectSlowly(owner: Owner, origin: string, pace: SlowPace, take: (bytes: Buffer) => void): Socket {
  const { hostname, port } = new URL(origin)
  const buffer = Buffer.alloc(pace.bytes)
  const onChunk = (length: number): boolean => {
    take(Buffer.from(buffer.subarray(0, length)))
    return false // pauses
  }
  const socket = connect({ host: hostname, port: Number(port), onread: { buffer, callback: onChunk } })
  const timer = setInterval(() => socket.resume(), pace.everyMs)
  socket.on('close', () => clearInterval(timer))
  socket.on('error', () => {})
  owner.teardown(() => socket.destroy())
  return socket
}

/** Makes the reader of a connection wait after each chunk of at most 64 KiB; 0 means no wait. */
export function slowDown(socket: Socket, pauseMs: () => number): void {
  socket.on('data', () => {
    const ms = pauseMs()
    if (ms === 0) return
    socket.pause()
    setTimeout(() => socket.resume(), ms)
  })
}
