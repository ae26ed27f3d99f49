import type { GatewayError, RefusalCause, RefusalCode, UnavailableCode } from './gateway-error.ts'
import type { Surface } from './surface.ts'

export type Rendered = Readonly<{ status: number; headers: readonly string[]; body: string }>

/** `error.status` and `success` are stable; code, check and requestId are best-effort (SPEC section 7). */
const platform = (error: GatewayError, requestId: string): unknown => ({
  success: false,
  message: error.message,
  error: {
    status: error.status,
    code: error.code,
    ...check(error),
    ...(error.details.messages && { messages: error.details.messages }),
    requestId,
  },
})

const data = (error: GatewayError): unknown => ({ detail: error.message })

const model = (error: GatewayError): unknown => ({
  error: {
    message: error.message,
    type: modelErrorType(error.status),
    code: error.code,
    ...check(error),
    ...error.details.told,
  },
})

const graphql = (error: GatewayError): unknown => ({
  data: null,
  errors: [
    {
      message: error.message,
      path: [],
      extensions: { code: graphqlCode(error.status), status: error.status, reason: error.code, ...check(error) },
    },
  ],
})

const check = (error: GatewayError) => (error.check ? { check: error.check } : {})

const modelErrorType = (status: number): string =>
  status === 429 ? 'rate_limit_error' : status >= 500 ? 'server_error' : 'invalid_request_error'

const graphqlCodes: Readonly<Record<number, string>> = {
  400: 'BAD_REQUEST',
  401: 'UNAUTHENTICATED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_ALLOWED',
  408: 'REQUEST_TIMEOUT',
  413: 'PAYLOAD_TOO_LARGE',
  415: 'UNSUPPORTED_MEDIA_TYPE',
  422: 'BAD_USER_INPUT',
  429: 'TOO_MANY_REQUESTS',
  500: 'INTERNAL_SERVER_ERROR',
  503: 'SERVICE_UNAVAILABLE',
}

const graphqlCode = (status: number): string =>
  graphqlCodes[status] ?? (status >= 500 ? 'INTERNAL_SERVER_ERROR' : 'BAD_REQUEST')

const shapes: Readonly<Record<Surface, (error: GatewayError, requestId: string) => unknown>> = {
  platform,
  files: platform,
  data,
  model,
  graphql,
}

/** Responses of the gateway are for the caller alone and soon out of date, so no cache may store them. */
const jsonHeaders = ['content-type', 'application/json; charset=utf-8', 'cache-control', 'no-store']

/**
 * RFC 9110 15.5.2: every 401 names a scheme. API tokens use Bearer, and JWTs here have no registered scheme. RFC 6750 3.1:
 * a request without a credential learns no error, and one value for all others tells no guess from another.
 */
function challenge({ status, exactCause }: GatewayError): string | undefined {
  if (status === 401) return exactCause === 'credential_missing' ? 'Bearer' : 'Bearer error="invalid_token"'
  return scopeCauses.has(exactCause) ? 'Bearer error="insufficient_scope"' : undefined
}

/** Causes that a wider token would cure. A role is the user's, so no other token helps. */
const scopeCauses: ReadonlySet<RefusalCause> = new Set(['token_ability_missing', 'token_read_only'])

/**
 * Seconds after which an outage of this kind may be over. The relayed 503 of an upstream is not here, because only the
 * upstream knows.
 */
const retrySeconds = {
  // A replica, a place in a queue, or a table is free at once.
  route_changed: 1,
  gateway_draining: 1,
  lookups_busy: 1,
  rate_limit_unavailable: 1,
  decision_unavailable: 1,
  upstream_unavailable: 1,
  // Keys that could not be fetched are fetched again within 2 s, and the pool of the database connects again.
  issuer_unavailable: 2,
  directory_unavailable: 2,
  audit_unavailable: 2,
  // The upstream is overloaded: a call that follows at once makes it worse.
  upstream_timeout: 5,
  event_too_large: 5,
  // A fail-over and a heartbeat take some seconds at least.
  directory_read_only: 5,
  cluster_offline: 5,
} as const satisfies Record<UnavailableCode, number>

function retryAfter({ code, details }: GatewayError): string | undefined {
  const seconds: number | undefined = (retrySeconds as Readonly<Partial<Record<RefusalCode, number>>>)[code]
  return details.retryAfter ?? (seconds === undefined ? undefined : String(seconds))
}

export function render(error: GatewayError, surface: Surface, requestId: string): Rendered {
  const headers = [...jsonHeaders, 'x-request-id', requestId]
  const asked = challenge(error)
  if (asked !== undefined) headers.push('www-authenticate', asked)
  if (error.details.allow) headers.push('allow', error.details.allow.join(', '))
  const seconds = retryAfter(error)
  if (seconds !== undefined) headers.push('retry-after', seconds)
  if (error.status === 409 && surface === 'model') headers.push('x-should-retry', 'false')
  return { status: error.status, headers, body: JSON.stringify(shapes[surface](error, requestId)) }
}

export const renderSuccess = (data: unknown, requestId: string, status = 200): Rendered => ({
  status,
  headers: [...jsonHeaders, 'x-request-id', requestId],
  body: JSON.stringify({ success: true, data }),
})

export const renderList = (
  data: readonly unknown[],
  { page, perPage, total }: Readonly<{ page: number; perPage: number; total: number }>,
  requestId: string,
): Rendered => {
  const meta = { currentPage: page, total, perPage, lastPage: Math.max(1, Math.ceil(total / perPage)) }
  const { headers } = renderSuccess(undefined, requestId)
  return { status: 200, headers, body: JSON.stringify({ success: true, meta, data }) }
}
