import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { connect as connectSecurely, createServer as createSecureServer } from 'node:tls'
import { createAuthority, ownNames } from '../certificates.ts'
import type { Owner } from '../owner.ts'
import { column, note } from './column.ts'

type Settings = Readonly<Record<string, unknown>>

/**
 * Stand between a test, which speaks as plainly as ever, and its gateway, which hears and speaks TLS. So a test needs no other
 * client and no other upstream.
 */
type Ends = Readonly<{ tls: Settings; ca: string; upstreamTls: Settings; upstreamPort: number }>

const ends = column === 'tls' ? await startEnds() : undefined

async function startEnds(): Promise<Ends> {
  // They serve each test of this process.
  const authority = createAuthority({ teardown: (end) => process.on('exit', end) })
  const { certFile, keyFile, cert, key } = authority.issue(ownNames)
  const server = createSecureServer({ cert, key, allowHalfOpen: true }, (secure) => {
    note()
    // `toUpstream` has put the port of the upstream into the address.
    const [, , high = '0', low = '0'] = (secure.localAddress ?? '').split('.')
    join(secure, connect({ host: '127.0.0.1', port: Number(high) * 256 + Number(low), allowHalfOpen: true }))
  })
  server.on('tlsClientError', () => {})
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
  server.unref()
  return {
    tls: { cert: `file:${certFile}`, key: `file:${keyFile}` },
    ca: authority.cert,
    upstreamTls: { ca: `file:${authority.certFile}`, serverName: 'localhost' },
    upstreamPort: (server.address() as AddressInfo).port, // a TCP listener's address is never a string
  }
}

/** Passes on bytes, ends and resets in both directions. */
function join(one: Socket, other: Socket): void {
  const pass = (from: Socket, to: Socket): void => {
    from.setNoDelay(true)
    from.pipe(to)
    from.on('error', () => {})
    from.on('close', (hadError) => {
      if (hadError || !from.readableEnded) reset(to)
      else if (from.writableFinished) to.destroySoon()
    })
  }
  pass(one, other)
  pass(other, one)
}

/** Node resets no TLS. */
function reset(socket: Socket): void {
  if ('encrypted' in socket) socket.destroy()
  else socket.resetAndDestroy()
}

export function secureListener(listeners: Readonly<Record<string, Settings>>): Settings {
  if (!ends || listeners.public?.tls !== undefined) return listeners
  return { ...listeners, public: { ...listeners.public, tls: ends.tls } }
}

export function secureUpstream(upstream: Settings): Settings {
  const { url, tls } = upstream
  if (!ends || tls !== undefined || typeof url !== 'string') return upstream
  const place = new URL(url)
  const port = Number(place.port)
  const isHere = ['127.0.0.1', 'localhost'].includes(place.hostname)
  // Nothing listens on port 1.
  if (place.protocol !== 'http:' || !isHere || port <= 1) return upstream
  const address = `127.1.${port >> 8}.${port & 255}:${ends.upstreamPort}`
  return { ...upstream, url: `https://${address}${place.pathname.replace(/\/$/, '')}`, tls: ends.upstreamTls }
}

/** The address at which a test reaches its listener; one with TLS of its own is as it was. */
export async function frontFor(owner: Owner, url: string, listeners?: unknown): Promise<string> {
  const { public: own } = (listeners ?? {}) as Readonly<Record<string, Settings>>
  if (!ends || own?.tls !== undefined) return url
  const { hostname, port } = new URL(url)
  const { ca } = ends
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const secure = connectSecurely({
      ...{ host: hostname, port: Number(port), ca, servername: 'localhost', allowHalfOpen: true },
      // The address of a client counts in many limits.
      ...(client.remoteAddress?.startsWith('127.') && { localAddress: client.remoteAddress }),
    })
    secure.on('secureConnect', note)
    for (const socket of [client, secure]) {
      open.add(socket)
      socket.on('close', () => open.delete(socket))
    }
    join(client, secure)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.teardown(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}` // likewise
}
