import { once } from 'node:events'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'

export type RunningServer = Readonly<{ url: string; stop: () => Promise<void> }>

export async function startServer(server: Server, host: string): Promise<RunningServer> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.listen(0, host)
  await once(server, 'listening')

  async function stop(): Promise<void> {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    await closed
  }

  return { url: readUrl(server), stop }
}

function readUrl(server: Server): string {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a server without a port')
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address
  return `http://${host}:${address.port}`
}
