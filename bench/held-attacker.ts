// The clients of bench:held, in a process of their own. They open connections, send what the argument says, and read nothing
// where it says `isDeaf`.
import { connect, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'
import type { HeldScene } from './held-scenes.ts'

export type CrowdOrders = HeldScene & Readonly<{ host: string; port: number; isSecure: boolean; connections: number }>

const orders = JSON.parse(process.argv[2] ?? '') as CrowdOrders // bench:held wrote it
const { host, port, isSecure, connections, head, fillBytes, fill, isDeaf } = orders
const filling = Buffer.from(fill.repeat(Math.ceil(fillBytes / Math.max(1, fill.length))).slice(0, fillBytes), 'latin1')

async function openOne(): Promise<void> {
  const socket: Socket = isSecure ? connectSecurely({ host, port, rejectUnauthorized: false }) : connect({ host, port })
  socket.on('error', () => {})
  await new Promise<void>((resolve) => {
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      resolve()
    })
    socket.once('close', resolve)
  })
  if (isDeaf) socket.pause()
  else socket.resume()
  socket.write(head)
  // A moment later, so that the head arrives in a packet of its own.
  setTimeout(() => socket.write(filling), 20)
}

async function work(count: number): Promise<void> {
  for (let done = 0; done < count; done++) await openOne()
}

const lanes = 50
await Promise.all(Array.from({ length: lanes }, (_, lane) => work(Math.floor((connections + lane) / lanes))))
process.send?.('open')
process.on('disconnect', () => process.exit())
