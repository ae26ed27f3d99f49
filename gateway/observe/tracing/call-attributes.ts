import type { Attributes } from '@opentelemetry/api'
import type { Upstream } from '../../stages/locate/upstream.ts'
import { redactPath } from '../log/redact.ts'

export type OutgoingCall = Readonly<{ method: string; upstream: Upstream }>

/** As much as the audit keeps of a path, so that both name a request alike. */
export const pathLimit = 1_024

/** Follows the semantic conventions for HTTP clients, but leaves out the query, where careless clients put secrets. */
export function describeCall({ method, upstream }: OutgoingCall): Readonly<{ name: string; attributes: Attributes }> {
  const { hostname, port, protocol, origin } = new URL(upstream.origin)
  const [path = ''] = upstream.path.split('?')
  return {
    name: method,
    attributes: {
      'http.request.method': method,
      'server.address': hostname,
      'server.port': Number(port || (protocol === 'https:' ? 443 : 80)),
      'url.full': origin + redactPath(path).slice(0, pathLimit),
      'sallyport.upstream': upstream.name,
    },
  }
}
