import { createSecureContext, type SecureContext } from 'node:tls'
import { checkPair, readCertificates } from './certificates.ts'

/** The TLS configuration of an upstream. Only requests with the same object share connections. */
export type UpstreamTls = Readonly<{
  /** The name of the upstream: two upstreams may share an origin. */
  upstream: string
  serverName: string | undefined
  context: SecureContext
}>

export type ClientIdentity = Readonly<{ ca?: string | undefined; cert?: string | undefined; key?: string | undefined }>

export function createUpstreamTls(
  upstream: string,
  { ca, cert, key }: ClientIdentity,
  serverName: string | undefined,
): UpstreamTls {
  if (ca !== undefined) readCertificates('ca', ca)
  if (cert !== undefined) checkPair(cert, key ?? '')
  try {
    const own = { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert, key }) }
    return { upstream, serverName, context: createSecureContext({ ...own, minVersion: 'TLSv1.2' }) }
  } catch (error) {
    throw new Error(`ca, cert or key cannot serve (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`)
  }
}
