import { connect, isIP, type OnReadOpts, type Socket } from 'node:net'
import { connect as connectSecurely, createSecureContext, type SecureContext } from 'node:tls'
import type { Names } from './names.ts'
import type { UpstreamTls } from './tls/upstream-tls.ts'

export type OpenOptions = Readonly<{ onread?: OnReadOpts; highWaterMark?: number }>

/** Where an upstream listens. */
export type Origin = Readonly<{
  /** Scheme, host and port, and the default port left out. */
  origin: string
  /** As `Host` says it. */
  authority: string
  isEncrypted: boolean
  /** The event of a connection that may be used. */
  openEvent: 'connect' | 'secureConnect'
  /** The host, where it is a name, which may lead elsewhere tomorrow. */
  name: string | undefined
  /** What its certificate must be for. */
  serverName: string
  /** Opens a connection; on TLS the options are nobody's. */
  open: (options: OpenOptions) => Socket
}>

const keepAliveProbeMs = 60_000

export function readOrigin(text: string, tls: UpstreamTls | undefined, { lookup }: Pick<Names, 'lookup'>): Origin {
  const { protocol, hostname, port, origin } = new URL(text)
  const isEncrypted = protocol === 'https:'
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname
  const address = { host, port: Number(port || (isEncrypted ? 443 : 80)), lookup }
  const facts = {
    origin,
    authority: port === '' ? hostname : `${hostname}:${port}`,
    isEncrypted,
    name: isIP(host) === 0 ? host : undefined,
    serverName: tls?.serverName ?? host,
  }
  if (isEncrypted) return { ...facts, openEvent: 'secureConnect', open: secureOpener(address, tls) }
  const options = { ...address, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveProbeMs }
  return { ...facts, openEvent: 'connect', open: (more) => connect({ ...options, ...more }) }
}

type Address = Readonly<{ host: string; port: number; lookup: Names['lookup'] }>

/** As every upstream that nothing else is said of: the public authorities that Node knows are believed. */
let usualContext: SecureContext | undefined

/** Resumes the last session of the origin. */
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
      // Whatever the environment says.
      rejectUnauthorized: true,
      ...(serverName !== undefined && { servername: serverName }),
      ...(session && { session }),
    })
    socket.setNoDelay(true)
    socket.setKeepAlive(true, keepAliveProbeMs)
    socket.on('session', (fresh) => {
      session = fresh
    })
    return socket
  }
}
