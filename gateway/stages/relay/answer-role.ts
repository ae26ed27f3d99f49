import { mayCommand } from './commanding-headers.ts'

/**
 * How the relay treats a response header. A `hop` header is about the upstream's connection, a `command` header steers
 * a proxy in front, and a `targeted` one speaks to some shared caches (RFC 9213). A `site` header changes what browsers
 * keep for the whole site. The gateway itself reads the headers after `site`.
 */
export type AnswerRole =
  | 'pass'
  | 'hop'
  | 'command'
  | 'targeted'
  | 'site'
  | 'length'
  | 'type'
  | 'set-cookie'
  | 'cache-control'
  | 'pragma'
  | 'request-id'

const read: ReadonlyMap<string, AnswerRole> = new Map([
  ['content-length', 'length'],
  ['content-type', 'type'],
  ['set-cookie', 'set-cookie'],
  ['cache-control', 'cache-control'],
  ['pragma', 'pragma'],
  ['x-request-id', 'request-id'],
])

const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

const ofTheSite = new Set([
  'set-cookie',
  'set-cookie2',
  'clear-site-data',
  'service-worker-allowed',
  'strict-transport-security',
  'public-key-pins',
  'public-key-pins-report-only',
  'expect-ct',
  'nel',
  'report-to',
  'alt-svc',
  'accept-ch',
  'accept-ch-lifetime',
  'critical-ch',
  'set-login',
  'sec-session-registration',
  'sec-session-challenge',
  'secure-session-registration',
  'secure-session-challenge',
  'use-as-dictionary',
])

/** Bounds the cache: backends use few header names, and one that invents names must not fill the memory. */
const rememberedNames = 1_024
const rememberedLength = 64
const remembered = new Map<string, AnswerRole>()

export function answerRole(name: string): AnswerRole {
  const known = remembered.get(name)
  if (known) return known
  const role = findRole(name)
  if (remembered.size < rememberedNames && name.length <= rememberedLength) remembered.set(name, role)
  return role
}

/** CGI and some servers read every other character as `-`, so an alias has the role of the name that they read. */
function findRole(name: string): AnswerRole {
  const exact = name.toLowerCase()
  const canonical = exact.replace(/[^a-z0-9]/g, '-')
  const role = read.get(exact)
  if (role) return role
  if (hopByHop.has(canonical)) return 'hop'
  // A proxy that reads this spelling as Content-Length would see a second length.
  if (canonical === 'content-length') return 'hop'
  if (ofTheSite.has(canonical)) return 'site'
  if (canonical === 'x-accel-buffering') return 'pass'
  if (mayCommand(canonical)) return 'command'
  return /(?:^|-)cache-control$/.test(canonical) ? 'targeted' : 'pass'
}
