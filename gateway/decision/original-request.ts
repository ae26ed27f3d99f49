import { GatewayError } from '../errors/gateway-error.ts'
import type { Exchange } from '../http/exchange.ts'
import { isHost } from '../receive/headers.ts'
import { hostName } from '../route/table.ts'

/** The request that a proxy asks about, as the proxy tells it. */
export type OriginalRequest = Readonly<{ method: string; target: string; host: string }>

const names = [
  'x-forwarded-method',
  'x-forwarded-uri',
  'x-forwarded-host',
  'x-original-method',
  'x-original-uri',
] as const

type Name = (typeof names)[number]

/**
 * Reads the original method, target and host: from the path under `/envoy`, else from the headers of Traefik and
 * Caddy (`X-Forwarded-*`) or nginx (`X-Original-*`). A request that could be meant in two ways is refused
 * (SPEC sections 8 and 11).
 *
 * @param host The value of `Host`, which is the host of a family that names none itself.
 */
export function readOriginalRequest(
  exchange: Pick<Exchange, 'method' | 'target' | 'headers'>,
  host: string,
): OriginalRequest {
  if (exchange.target.startsWith('/envoy/'))
    return { method: exchange.method, target: exchange.target.slice('/envoy'.length), host }
  const lines = collect(exchange.headers)
  const forwarded = readFamily(lines, 'x-forwarded-method', 'x-forwarded-uri')
  const original = readFamily(lines, 'x-original-method', 'x-original-uri')
  // nginx passes a client's X-Forwarded-Host on: alone it says nothing.
  const forwardedHost = forwarded && (only(lines['x-forwarded-host']) ?? host)
  // A route of one host must not be passed by for a spelling of it that only backends understand.
  if (forwardedHost !== undefined && !isHost(forwardedHost)) throw new GatewayError('original_host_malformed')
  // A client that adds the other family must not choose the host: the proxy's own words name it (Traefik).
  if (original && forwardedHost !== undefined && hostName(forwardedHost) !== hostName(host))
    throw new GatewayError('original_request_contradiction')
  return { ...agree(forwarded, original), host: forwardedHost ?? host }
}

/** The request as one family of headers tells it; undefined where it tells nothing. */
type Family = Readonly<{ method: string | undefined; target: string | undefined }>

function readFamily(lines: Lines, methodName: Name, targetName: Name): Family | undefined {
  const method = only(lines[methodName])
  const target = only(lines[targetName])
  return method === undefined && target === undefined ? undefined : { method, target }
}

/** One family that names both, or two of which neither says otherwise. */
function agree(left: Family | undefined, right: Family | undefined): Readonly<{ method: string; target: string }> {
  const whole = [left, right].find((family) => family?.method !== undefined && family.target !== undefined)
  if (!whole?.method || !whole.target) throw new GatewayError('original_request_missing')
  for (const family of [left, right])
    if ((family?.method ?? whole.method) !== whole.method || (family?.target ?? whole.target) !== whole.target)
      throw new GatewayError('original_request_contradiction')
  return { method: whole.method, target: whole.target }
}

type Lines = Readonly<Record<Name, Line[]>>

type Line = Readonly<{ value: string; isAlias: boolean }>

function collect(headers: readonly string[]): Lines {
  const lines: Lines = {
    'x-forwarded-method': [],
    'x-forwarded-uri': [],
    'x-forwarded-host': [],
    'x-original-method': [],
    'x-original-uri': [],
  }
  for (let index = 0; index < headers.length; index += 2) {
    const exact = headers[index]?.toLowerCase() ?? ''
    const canonical = exact.replace(/[^a-z0-9]/g, '-')
    const name = names.find((known) => known === canonical)
    if (name) lines[name].push({ value: headers[index + 1] ?? '', isAlias: exact !== canonical })
  }
  return lines
}

/** No proxy says these names in another spelling: that line is a client's, which some proxies pass on. */
function only(lines: readonly Line[]): string | undefined {
  if (lines.length > 1 || lines[0]?.isAlias) throw new GatewayError('original_header_repeated')
  return lines[0]?.value
}
