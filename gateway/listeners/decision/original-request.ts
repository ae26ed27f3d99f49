import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Exchange } from '../../http/exchange.ts'
import { isHost } from '../../stages/receive/headers.ts'
import { hostName } from '../../stages/route/table.ts'

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
 * The path by which a proxy asks. Under both prefixes the call is the original request itself. `envoy` also serves an
 * Envoy that copies every header of a permit, `envoyNamed` only one that copies named headers.
 */
export type ProxyEntry = 'authorize' | 'envoy' | 'envoyNamed'

// `/envoy` takes any path below it, so the other prefix must not be one of these.
const prefixes = { envoy: '/envoy', envoyNamed: '/envoy-named' } as const

export function readEntry(target: string): ProxyEntry {
  if (target.split('?', 1)[0] === '/authorize') return 'authorize'
  const entry = readPrefix(target)
  if (!entry) throw new GatewayError('route_not_found')
  return entry
}

const readPrefix = (target: string): keyof typeof prefixes | undefined =>
  (['envoy', 'envoyNamed'] as const).find((name) => target.startsWith(`${prefixes[name]}/`))

/**
 * Reads the original method, target and host from the path under a prefix of Envoy or from the proxy's headers. Traefik and
 * Caddy send `X-Forwarded-*`, nginx sends `X-Original-*`. An ambiguous request is refused (SPEC sections 8 and 11).
 * @param host The value of `Host`, used unless a header names the host.
 */
export function readOriginalRequest(
  exchange: Pick<Exchange, 'method' | 'target' | 'headers'>,
  host: string,
): OriginalRequest {
  const entry = readPrefix(exchange.target)
  if (entry) return { method: exchange.method, target: exchange.target.slice(prefixes[entry].length), host }
  const lines = collect(exchange.headers)
  const forwarded = readFamily(lines, 'x-forwarded-method', 'x-forwarded-uri')
  const original = readFamily(lines, 'x-original-method', 'x-original-uri')
  // nginx passes a client's X-Forwarded-Host on, so this header counts only beside the rest of its family.
  const forwardedHost = forwarded && (only(lines['x-forwarded-host']) ?? host)
  // A spelling that only backends understand must not evade the routes of a host.
  if (forwardedHost !== undefined && !isHost(forwardedHost)) throw new GatewayError('original_host_malformed')
  // A client that adds the other header family must not choose the host. Traefik names the host in its own headers.
  if (original && forwardedHost !== undefined && hostName(forwardedHost) !== hostName(host))
    throw new GatewayError('original_request_contradiction')
  return { ...agree(forwarded, original), host: forwardedHost ?? host }
}

type Family = Readonly<{ method: string | undefined; target: string | undefined }>

function readFamily(lines: Lines, methodName: Name, targetName: Name): Family | undefined {
  const method = only(lines[methodName])
  const target = only(lines[targetName])
  return method === undefined && target === undefined ? undefined : { method, target }
}

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

function only(lines: readonly Line[]): string | undefined {
  if (lines.length > 1 || lines[0]?.isAlias) throw new GatewayError('original_header_repeated')
  return lines[0]?.value
}

export function asksForNginxStatuses(target: string): boolean {
  const [path, query = ''] = target.split('?')
  return path === '/authorize' && query.split('&').includes('statuses=nginx')
}
