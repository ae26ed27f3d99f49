import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import type { Owner } from './owner.ts'
import { joinWire, type Wire, type WireEnd } from './tcp-wire.ts'

/** A wire that a test can stall, cut or listen to, in front of a server that knows nothing of it. */
export type TcpProxy = Readonly<{
  port: number
  /** The number of connected clients. */
  connections: () => number
  /** No byte passes any more, in either direction; connections stay, and new ones are accepted in silence. */
  freeze: () => void
  thaw: () => void
  /** Resets every connection, at both ends. New ones are welcome. */
  cut: () => void
  /** Resets new connections; open ones stay. The port is kept, or another process might take it. */
  refuse: () => void
  accept: () => void
}>

/** Starts a proxy on a free port of loopback, and resets what is left of it with its owner. */
export async function startTcpProxy(owner: Owner, target: WireEnd): Promise<TcpProxy> {
  const wires = new Set<Wire>()
  let isFrozen = false
  let isRefusing = false
  let count = 0
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) => {
    if (isRefusing) {
      client.resetAndDestroy()
      return
    }
    const wire = joinWire(client, target, count++)
    wires.add(wire)
    client.once('close', () => wires.delete(wire))
    if (isFrozen) wire.freeze()
    else wire.thaw()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = (): void => {
    for (const wire of wires) wire.cut()
  }
  owner.teardown(() => {
    server.close()
    cut()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    port,
    connections: () => wires.size,
    freeze: () => {
      isFrozen = true
      for (const wire of wires) wire.freeze()
    },
    thaw: () => {
      isFrozen = false
      for (const wire of wires) wire.thaw()
    },
    cut,
    refuse: () => {
      isRefusing = true
    },
    accept: () => {
      isRefusing = false
    },
  }
}

/** The same address, by way of the proxy. */
export function leadThrough({ port }: TcpProxy, address: string): string {
  const url = new URL(address)
  url.host = `127.0.0.1:${port}`
  return url.href
}
