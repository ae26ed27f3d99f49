import { mayOverride } from './override-headers.ts'

/**
 * What becomes of a header line: it passes on, is read by a stage, is dropped in silence, or makes the
 * request malformed. An `override` is dropped too, unless its backend asks for it by name.
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

/** Never passed on: hop-by-hop (RFC 9110 7.6.1), or made anew by us. */
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

/** Names that came before: clients use few, and one who invents them finds no more room than this. */
const rememberedNames = 1_024
const rememberedLength = 64
const remembered = new Map<string, HeaderRole>()

/** The role of a header by its name. */
export function headerRole(name: string): HeaderRole {
  const known = remembered.get(name)
  if (known) return known
  const role = findRole(name)
  if (remembered.size < rememberedNames && name.length <= rememberedLength) remembered.set(name, role)
  return role
}

/** CGI has letters, digits and `_` in a name: each other character may be a `-` to a backend, so it is one here. */
function findRole(name: string): HeaderRole {
  const exact = name.toLowerCase()
  const role = read.get(exact)
  if (role) return role
  const canonical = exact.replace(/[^a-z0-9]/g, '-')
  // An alias of a header that decides is never believed and never forwarded.
  if (canonical !== exact && read.has(canonical)) return framing.has(canonical) ? forbidden : drop
  if (dropped.has(canonical) || droppedPrefixes.some((prefix) => canonical.startsWith(prefix))) return drop
  return mayOverride(canonical) ? override : pass
}
