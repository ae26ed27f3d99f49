import { connect, isIP, type OnReadOpts, Socket } from 'node:net'
import { connect as connectSecurely, createSecureContext, type SecureContext } from 'node:tls'
import { guarded } from '../../base/fault/guarded.ts'
import { keepAliveProbeMs } from '../socket/transport.ts'
import type { UpstreamTls } from '../tls/client.ts'
import type { DnsCache } from './dns-cache.ts'
import { admittedOnly, type Networks, refused } from './networks.ts'

export type OpenOptions = Readonly<{ onread?: OnReadOpts; highWaterMark?: number }>

export type Origin = Readonly<{
  origin: string
  authority: string
  isEncrypted: boolean
  openEvent: 'connect' | 'secureConnect'
  /** The host where it is a DNS name, whose addresses may change. */
  name: string | undefined
  open: (options: OpenOptions) => Socket
}>

/** With `networks`, a connection to any other address fails as unreachable. */
export function readOrigin(
  text: string,
  tls: UpstreamTls | undefined,
  names: Pick<DnsCache, 'lookup'>,
  networks?: Networks,
): Origin {
  const { protocol, hostname, port, origin } = new URL(text)
  const isEncrypted = protocol === 'https:'
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  const portNumber = Number(port || (isEncrypted ? 443 : 80))
  const lookup = networks ? admittedOnly(names.lookup, networks, portNumber) : names.lookup
  const address = { host, port: portNumber, lookup }
  const facts = {
    origin,
    authority: port === '' ? hostname : `${hostname}:${port}`,
    isEncrypted,
    name: isIP(host) === 0 ? host : undefined,
  }
  if (networks && facts.name === undefined && !networks.admits(host, portNumber))
    return { ...facts, openEvent: 'connect', open: () => failing(refused(host)) }
  if (isEncrypted) return { ...facts, openEvent: 'secureConnect', open: secureOpener(address, tls) }
  const options = { ...address, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveProbeMs }
  return { ...facts, openEvent: 'connect', open: (more) => connect({ ...options, ...more }) }
}

function failing(error: Error): Socket {
  const socket = new Socket()
  setImmediate(() => socket.destroy(error))
  return socket
}

type Address = Readonly<{ host: string; port: number; lookup: DnsCache['lookup'] }>

/** Shared by upstreams without a TLS configuration: they trust the public authorities of Node. */
let usualContext: SecureContext | undefined

function secureOpener(address: Address, tls: UpstreamTls | undefined): Origin['open'] {
  const { host } = address
  usualContext ??= createSecureContext({ minVersion: 'TLSv1.2' })
  const secureContext = tls?.context ?? usualContext
  const serverName = tls?.serverName ?? (isIP(host) === 0 ? host : undefined)
  let session: Buffer | undefined
  return () => {
    const socket = connectSecurely({
      ...address,
      secureContext,
      ALPNProtocols: ['http/1.1'],
      // Set explicitly, since NODE_TLS_REJECT_UNAUTHORIZED could disable it.
      rejectUnauthorized: true,
      ...(serverName !== undefined && { servername: serverName }),
      ...(session && { session }),
    })
    socket.setNoDelay(true)
    socket.setKeepAlive(true, keepAliveProbeMs)
    const keep = (fresh: Buffer): void => {
      session = fresh
    }
    socket.on('session', guarded('upstream', keep))
    return socket
  }
}
