import { createSecureContext, type SecureContext } from 'node:tls'
import { checkPair, readCertificates } from './certificates.ts'

/** How an upstream is met on TLS. Connections are shared only by requests with the very same object. */
export type UpstreamTls = Readonly<{
  /** Whose connections these are: two upstreams may be at one origin. */
  upstream: string
  /** What its certificate must be for, and what SNI says, instead of the host. */
  serverName: string | undefined
  context: SecureContext
}>

/** PEM: whom to believe instead of the public authorities, and what to present. */
export type ClientIdentity = Readonly<{ ca?: string | undefined; cert?: string | undefined; key?: string | undefined }>

/** Throws a sentence, without a word of what it was given, where no connection could come of it. */
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
