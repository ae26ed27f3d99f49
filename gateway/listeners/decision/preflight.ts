import type { RawHeaders } from '../../http/exchange.ts'
import type { Snapshot } from '../../pipeline.ts'
import { decide, enforce, type Permit } from '../../stages/authorize/decide.ts'
import type { Cors } from '../../stages/endpoints/cors.ts'
import type { RequestHeaders } from '../../stages/receive/headers.ts'
import { mayOverrideRequest } from '../../stages/receive/override-headers.ts'
import type { RequestTarget } from '../../stages/receive/target.ts'
import type { ProxyEntry } from './original-request.ts'

export type Preflights = 'refuse' | 'permit'

type Asked = Readonly<{ entry: ProxyEntry; lines: RawHeaders; headers: RequestHeaders; target: RequestTarget }>

/**
 * Permits a preflight as a bare OPTIONS, without a caller. Anything else is judged as an OPTIONS like any other. The asked
 * method's route is matched in full, so a path that a backend could read as a stricter one stays refused.
 */
export function permitPreflight(
  cors: Pick<Cors, 'readPreflight'>,
  { entry, lines, headers, target }: Asked,
  host: string,
  { table, roles }: Pick<Snapshot, 'table' | 'roles'>,
): Permit | undefined {
  const method = cors.readPreflight(target.method, lines)
  if (method === undefined || !isBare(entry, lines, headers)) return undefined
  if (!table.methodsAt(target, host)?.some((known) => known === method)) return undefined
  const match = table.match({ ...target, method }, host)
  return enforce(decide({ ...match, target, route: { ...match.route, isPublic: true } }, undefined, roles))
}

/**
 * A browser sends a preflight without content and credentials. A proxy passes the lines that it is not told to remove. By
 * one that overrides the method, a backend would carry out a DELETE for which no caller was judged.
 */
function isBare(entry: ProxyEntry, lines: RawHeaders, { authorization, oauthAccessToken }: RequestHeaders): boolean {
  if (authorization.length + oauthAccessToken.length > 0) return false
  return !lines.some((line, index) => index % 2 === 0 && isForeign(entry, line, lines[index + 1] ?? ''))
}

function isForeign(entry: ProxyEntry, name: string, value: string): boolean {
  const canonical = name.toLowerCase().replace(/[^a-z0-9]/g, '-')
  switch (canonical) {
    case 'content-length':
      return value !== '0'
    case 'transfer-encoding':
    case 'upgrade':
    case 'http2-settings':
      return true
    // Under the prefixes for Envoy these are the client's words. At /authorize they name the request itself.
    case 'x-forwarded-method':
    case 'x-forwarded-uri':
      return entry !== 'authorize'
    default:
      // nginx and ingress-nginx tell the request by x-original-*.
      return mayOverrideRequest(canonical) && !(entry === 'authorize' && canonical.startsWith('x-original-'))
  }
}
