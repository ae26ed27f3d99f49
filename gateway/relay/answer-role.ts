import { mayCommand } from './commanding-headers.ts'

/**
 * What becomes of a line of an answer: it passes, is about the upstream's connection (`hop`), commands a proxy in front
 * (`command`), speaks to some shared caches alone (`targeted`, RFC 9213), changes what browsers keep for the whole site
 * (`site`), or is one that the gateway reads.
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

/** Lines about the upstream's connection, not about its answer (RFC 9110 7.6.1). */
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

/** One backend's word for every page of the site: its cookies and storage, its certificates, where errors are reported. */
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
  'critical-ch',
  'set-login',
  'sec-session-registration',
  'secure-session-registration',
])

/** Names that came before: backends use few, and one that invents them finds no more room than this. */
const rememberedNames = 1_024
const rememberedLength = 64
const remembered = new Map<string, AnswerRole>()

/** The role of an answer's header by its name, as it is written. */
export function answerRole(name: string): AnswerRole {
  const known = remembered.get(name)
  if (known) return known
  const role = findRole(name)
  if (remembered.size < rememberedNames && name.length <= rememberedLength) remembered.set(name, role)
  return role
}

/** CGI and some servers read every other character as `-`, so an alias has the role of the name that it is read as. */
function findRole(name: string): AnswerRole {
  const exact = name.toLowerCase()
  const canonical = exact.replace(/[^a-z0-9]/g, '-')
  const role = read.get(exact)
  if (role) return role
  if (hopByHop.has(canonical)) return 'hop'
  // Another spelling of the length is a second length to a proxy that reads it so.
  if (canonical === 'content-length') return 'hop'
  if (ofTheSite.has(canonical)) return 'site'
  // It asks for no more than that nothing is held back.
  if (canonical === 'x-accel-buffering') return 'pass'
  if (mayCommand(canonical)) return 'command'
  return /(?:^|-)cache-control$/.test(canonical) ? 'targeted' : 'pass'
}
