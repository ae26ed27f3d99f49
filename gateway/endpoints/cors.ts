import { GatewayError } from '../errors/gateway-error.ts'
import type { Exchange, RawHeaders, ResponseHead } from '../http/exchange.ts'

/** Whose pages may read answers (WHATWG Fetch, "CORS protocol"). */
export type CorsSettings = Readonly<{
  /** Exact origins, or `*` for all. */
  origins: readonly string[]
  maxAgeSeconds: number
  /** Lets pages send cookies; never together with `*`. */
  credentials: boolean
}>

export type Cors = Readonly<{
  /** Makes every answer of this exchange say who may read it, refusals included. */
  decorate: (exchange: Exchange) => void
  /** The answer to a preflight, from the table's own methods; undefined where the request is none. */
  answerPreflight: (exchange: Exchange, methodsAt: () => readonly string[] | undefined) => ResponseHead | undefined
}>

/** What a page may read beside the headers that are always open to it. */
const exposed =
  'x-request-id, retry-after, ratelimit, ratelimit-policy, www-authenticate, content-disposition, x-should-retry'

/** Off: backends may answer browsers themselves. */
export const noCors: Cors = { decorate: () => {}, answerPreflight: () => undefined }

/** Answers for the backends: what they say about other origins themselves is dropped. */
export function createCors({ origins, maxAgeSeconds, credentials }: CorsSettings): Cors {
  const isForAll = origins.includes('*')
  const allowed = new Set(origins)
  const grant = (origin: string | undefined): RawHeaders => {
    const vary = isForAll ? [] : ['vary', 'origin']
    if (origin === undefined || !(isForAll || allowed.has(origin))) return vary
    const readers = ['access-control-allow-origin', isForAll ? '*' : origin]
    return [...readers, ...(credentials ? ['access-control-allow-credentials', 'true'] : []), ...vary]
  }
  return {
    decorate: (exchange) => {
      const granted = grant(readOne(exchange.headers, 'origin'))
      const isGranted = granted[0] === 'access-control-allow-origin'
      const own = isGranted ? [...granted, 'access-control-expose-headers', exposed] : granted
      exchange.transformHead((headers) => [...withoutGrants(headers), ...own])
    },
    answerPreflight: (exchange, methodsAt) => {
      if (exchange.method !== 'OPTIONS') return undefined
      const origin = readOne(exchange.headers, 'origin')
      const asked = readOne(exchange.headers, 'access-control-request-method')
      // From elsewhere it is an OPTIONS like any other.
      if (origin === undefined || asked === undefined || !(isForAll || allowed.has(origin))) return undefined
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

/** Which headers are sent decides nothing here: a credential is judged when it comes. */
function allowHeaders(asked: string | undefined): string[][] {
  const names = (asked ?? '').split(',').map((name) => name.trim().toLowerCase())
  const sound = names.filter((name) => /^[!#$%&'*+.^_`|~\w-]+$/.test(name))
  return sound.length === 0 ? [] : [['access-control-allow-headers', sound.join(', ')]]
}

/** The value of a header that stands on one line; two lines are none. */
function readOne(headers: RawHeaders, name: string): string | undefined {
  const values = headers.filter((_, index) => index % 2 === 1 && headers[index - 1]?.toLowerCase() === name)
  return values.length === 1 ? values[0] : undefined
}

/** Without these lines the others of the protocol grant nothing. */
const granting = new Set([
  'access-control-allow-origin',
  'access-control-allow-credentials',
  'access-control-expose-headers',
])

const withoutGrants = (headers: RawHeaders): RawHeaders =>
  headers.filter((_, index) => !granting.has(headers[index - (index % 2)]?.toLowerCase() ?? ''))
