import type { Exchange } from '../engine/exchange.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { isHost } from '../receive/headers.ts'

/** The request that a proxy asks about, as the proxy tells it. */
export type OriginalRequest = Readonly<{ method: string; target: string; host: string | undefined }>

const names = [
  'x-forwarded-method',
  'x-forwarded-uri',
  'x-forwarded-host',
  'x-original-method',
  'x-original-uri',
] as const

/**
 * Reads the original method and target: from the path under `/envoy`, else from the headers of Traefik and
 * Caddy (`X-Forwarded-*`) or nginx (`X-Original-*`). What could be meant in two ways is refused (SPEC section 8).
 */
export function readOriginalRequest(exchange: Pick<Exchange, 'method' | 'target' | 'headers'>): OriginalRequest {
  if (exchange.target.startsWith('/envoy/'))
    return { method: exchange.method, target: exchange.target.slice('/envoy'.length), host: undefined }
  const values = collect(exchange.headers)
  const original = only(values['x-original-uri'])
  const method = agree(only(values['x-forwarded-method']), only(values['x-original-method']))
  const target = agree(only(values['x-forwarded-uri']), original)
  // Traefik and Caddy set X-Forwarded-Host themselves; nginx passes a client's on, and names the host in Host.
  const host = original === undefined ? only(values['x-forwarded-host']) : undefined
  // A route of one host must not be passed by for a spelling of it that only backends understand.
  if (host !== undefined && !isHost(host)) throw new GatewayError('ambiguous_target')
  return { method, target, host }
}

type Values = Readonly<Record<(typeof names)[number], string[]>>

function collect(headers: readonly string[]): Values {
  const values: Values = {
    'x-forwarded-method': [],
    'x-forwarded-uri': [],
    'x-forwarded-host': [],
    'x-original-method': [],
    'x-original-uri': [],
  }
  for (let index = 0; index < headers.length; index += 2) {
    // Some proxies pass a client's underscores on: a second spelling is a second line.
    const name = names.find((known) => known === headers[index]?.toLowerCase().replace(/[_.]/g, '-'))
    if (name) values[name].push(headers[index + 1] ?? '')
  }
  return values
}

function only(lines: readonly string[]): string | undefined {
  if (lines.length > 1) throw new GatewayError('ambiguous_target')
  return lines[0]
}

/** One of the two families, or both with the same word. */
function agree(left: string | undefined, right: string | undefined): string {
  const value = left ?? right
  if (value === undefined || value === '' || (right !== undefined && right !== value))
    throw new GatewayError('ambiguous_target')
  return value
}
