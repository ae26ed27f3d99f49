import { mayOverride } from './override-headers.ts'

/**
 * The treatment of a header line: pass it on, read it in a stage, drop it, or refuse the request as malformed. An
 * `override` is dropped, too, unless its backend asks for it by name.
 */
export type HeaderRole =
  | Readonly<{ kind: 'pass' | 'drop' | 'forbidden' | 'override' }>
  | Readonly<{ kind: 'read'; name: ReadHeader }>

const readNames = [
  'host',
  'authorization',
  'x-oauth-access-token',
  'x-organization-id',
  'cookie',
  'traceparent',
  'tracestate',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'transfer-encoding',
  'content-length',
  'expect',
  'connection',
] as const

export type ReadHeader = (typeof readNames)[number]

const read = new Map(readNames.map((name) => [name as string, { kind: 'read', name }] as const))

/** Headers that never pass: they are hop-by-hop (RFC 9110 7.6.1), or the gateway sets them itself. */
const dropped = new Set([
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'upgrade',
  'http2-settings',
  'forwarded',
  'x-request-id',
  'x-forwarded',
])

const droppedPrefixes = ['x-gateway-', 'x-forwarded-']

const framing = new Set(['content-length', 'transfer-encoding'])

const pass: HeaderRole = { kind: 'pass' }
const drop: HeaderRole = { kind: 'drop' }
const forbidden: HeaderRole = { kind: 'forbidden' }
const override: HeaderRole = { kind: 'override' }

/** Clients use few names. The bound keeps invented ones from filling memory. */
const rememberedNames = 1_024
const rememberedLength = 64
const remembered = new Map<string, HeaderRole>()

export function headerRole(name: string): HeaderRole {
  const known = remembered.get(name)
  if (known) return known
  const role = findRole(name)
  if (remembered.size < rememberedNames && name.length <= rememberedLength) remembered.set(name, role)
  return role
}

/** CGI keeps only letters, digits and `_` of a name: to a backend any other character may be a `-`. */
function findRole(name: string): HeaderRole {
  const exact = name.toLowerCase()
  const role = read.get(exact)
  if (role) return role
  const canonical = exact.replace(/[^a-z0-9]/g, '-')
  // An alias of a header that decides access is neither trusted nor forwarded.
  if (canonical !== exact && read.has(canonical)) return framing.has(canonical) ? forbidden : drop
  if (dropped.has(canonical) || droppedPrefixes.some((prefix) => canonical.startsWith(prefix))) return drop
  return mayOverride(canonical) ? override : pass
}

/**
 * Names that HTTP, browsers, agents or tracing fill (IANA's registry of field names). A stage, a backend or a cache gives
 * them a meaning, or a page of another site may set them.
 */
const filled = new Set([
  ...['accept', 'age', 'allow', 'alt-used', 'b3', 'baggage', 'cache-control', 'cdn-loop', 'client-cert'],
  ...['client-cert-chain', 'cookie2', 'date', 'depth', 'destination', 'digest', 'dnt', 'dpop', 'early-data'],
  ...['etag', 'from', 'idempotency-key', 'if', 'last-event-id', 'last-modified', 'link', 'location'],
  ...['lock-token', 'max-forwards', 'origin', 'overwrite', 'pragma', 'prefer', 'priority', 'range', 'referer'],
  ...['retry-after', 'save-data', 'server', 'service-worker', 'set-cookie', 'signature', 'signature-input'],
  ...['timeout', 'upgrade-insecure-requests', 'user-agent', 'vary', 'via', 'warning', 'www-authenticate'],
  ...['x-requested-with'],
])

const filledPrefixes = ['accept-', 'access-control-', 'content-', 'grpc-', 'if-', 'mcp-', 'sec-', 'x-b3-']

/** Whether a header of this name, in lower case, may carry a credential that a proxy in front sets. */
export const mayCarryCredential = (name: string): boolean =>
  headerRole(name).kind === 'pass' && !filled.has(name) && !filledPrefixes.some((prefix) => name.startsWith(prefix))
