import { connect, type Socket } from 'node:net'
import type { Owner } from './owner.ts'

/** Many connections to one listener, and the state of each. */
export type Throng = Readonly<{
  sockets: readonly Socket[]
  /** Those that the other side has not closed. */
  open: () => readonly Socket[]
  leave: () => Promise<void>
}>

/** Connects so many times, several at a time. Resolves when each connection was accepted or refused. */
export async function gatherThrong(owner: Owner, origin: string, size: number): Promise<Throng> {
  const { hostname, port } = new URL(origin)
  const sockets: Socket[] = []
  const closed = new Set<Socket>()
  const connectOne = (): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(Number(port), hostname)
      sockets.push(socket)
      socket.on('error', () => {})
      socket.on('end', () => closed.add(socket))
      socket.on('close', () => {
        closed.add(socket)
        resolve()
      })
      socket.once('connect', () => resolve())
      socket.resume()
    })
  owner.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  while (sockets.length < size)
    await Promise.all(Array.from({ length: Math.min(50, size - sockets.length) }, connectOne))
  return {
    sockets,
    open: () => sockets.filter((socket) => !closed.has(socket)),
    leave: async () => {
      for (const socket of sockets) socket.destroy()
      while (closed.size < sockets.length) await new Promise((resolve) => setTimeout(resolve, 10))
    },
  }
}
