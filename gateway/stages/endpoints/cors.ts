import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Exchange, RawHeaders, ResponseHead } from '../../http/exchange.ts'

export type CorsSettings = Readonly<{
  origins: readonly string[]
  maxAgeSeconds: number
  /** Lets pages send cookies. Browsers forbid it together with `*`. */
  credentials: boolean
}>

export type Cors = Readonly<{
  decorate: (exchange: Exchange) => void
  /** The method that a preflight of an allowed origin asks for; undefined for any other request. */
  readPreflight: (method: string, headers: RawHeaders) => string | undefined
  answerPreflight: (exchange: Exchange, methodsAt: () => readonly string[] | undefined) => ResponseHead | undefined
}>

const exposed =
  'x-request-id, retry-after, ratelimit, ratelimit-policy, www-authenticate, content-disposition, x-should-retry'

export const noCors: Cors = { decorate: () => {}, readPreflight: () => undefined, answerPreflight: () => undefined }

/** Answers for the backends: their own CORS headers are dropped. */
export function createCors({ origins, maxAgeSeconds, credentials }: CorsSettings): Cors {
  const isForAll = origins.includes('*')
  const allowed = new Set(origins)
  const grant = (origin: string | undefined): RawHeaders => {
    const vary = isForAll ? [] : ['vary', 'origin']
    if (origin === undefined || !(isForAll || allowed.has(origin))) return vary
    const readers = ['access-control-allow-origin', isForAll ? '*' : origin]
    return [...readers, ...(credentials ? ['access-control-allow-credentials', 'true'] : []), ...vary]
  }
  const readPreflight: Cors['readPreflight'] = (method, headers) => {
    if (method !== 'OPTIONS') return undefined
    const origin = readOne(headers, 'origin')
    if (origin === undefined || !(isForAll || allowed.has(origin))) return undefined
    return readOne(headers, 'access-control-request-method')
  }
  return {
    readPreflight,
    decorate: (exchange) => {
      const granted = grant(readOne(exchange.headers, 'origin'))
      const isGranted = granted[0] === 'access-control-allow-origin'
      const own = isGranted ? [...granted, 'access-control-expose-headers', exposed] : granted
      exchange.transformHead((headers) => [...withoutGrants(headers), ...own])
    },
    answerPreflight: (exchange, methodsAt) => {
      if (readPreflight(exchange.method, exchange.headers) === undefined) return undefined
      const methods = methodsAt()
      if (!methods) throw new GatewayError('route_not_found')
      return {
        status: 204,
        headers: [
          ['access-control-allow-methods', methods.join(', ')],
          ...allowHeaders(readOne(exchange.headers, 'access-control-request-headers')),
          ['access-control-max-age', String(maxAgeSeconds)],
          ['vary', 'access-control-request-method, access-control-request-headers'],
          ['cache-control', 'no-store'],
        ].flat(),
      }
    },
  }
}

/** All requested headers are allowed: a credential is checked when it arrives. */
function allowHeaders(asked: string | undefined): string[][] {
  const names = (asked ?? '').split(',').map((name) => name.trim().toLowerCase())
  const sound = names.filter((name) => /^[!#$%&'*+.^_`|~\w-]+$/.test(name))
  return sound.length === 0 ? [] : [['access-control-allow-headers', sound.join(', ')]]
}

function readOne(headers: RawHeaders, name: string): string | undefined {
  const values = headers.filter((_, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === name)
  return values.length === 1 ? values[0] : undefined
}

/** Without these headers the others of the protocol grant nothing. */
const granting = new Set([
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
])

const withoutGrants = (headers: RawHeaders): RawHeaders =>
  headers.filter((_, index) => !granting.has(headers[index - (index % 2)]?.toLowerCase() ?? ''))
