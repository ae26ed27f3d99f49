import { connect, type Socket } from 'node:net'
import type { Owner } from './owner.ts'

export type SlowPace = Readonly<{ bytes: number; everyMs: number }>

/**
 * A client that takes so many bytes from its connection, and no more for a while. What the system's own buffers hold
 * for it comes on top; nothing is read ahead of it here.
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

/** Makes whoever reads a connection wait after each chunk, of 64 KiB at most; 0 is no wait. */
export function slowDown(socket: Socket, pauseMs: () => number): void {
  socket.on('data', () => {
    const ms = pauseMs()
    if (ms === 0) return
    socket.pause()
    setTimeout(() => socket.resume(), ms)
  })
}
