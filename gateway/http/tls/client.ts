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

type Work<Result> = (fetchRouted: typeof fetch) => Promise<Result>

/**
 * Fetches over a connection that trusts other authorities, or that a forward proxy opens by CONNECT. It is closed after
 * the work. undici is loaded for such a route alone.
 */
export async function fetchThrough<Result>(
  { ca, proxy }: Readonly<{ ca?: string | undefined; proxy?: string | undefined }>,
  work: Work<Result>,
): Promise<Result> {
  if (ca === undefined && proxy === undefined) return work(fetch)
  const { Agent, fetch: fetchBy, ProxyAgent } = await import('undici')
  const connect = ca === undefined ? {} : { ca }
  const dispatcher = proxy === undefined ? new Agent({ connect }) : new ProxyAgent({ uri: proxy, requestTls: connect })
  const fetchRouted = ((url: string, init: object) => fetchBy(url, { ...init, dispatcher })) as unknown as typeof fetch
  try {
    return await work(fetchRouted)
  } finally {
    dispatcher.destroy().catch(() => undefined)
  }
}
