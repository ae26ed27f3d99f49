// Target, headers and address of a client are read here, strictly and once. Past this folder no stage sees a raw target or header.
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { usualHeadLimits } from './head-limits.ts'
import { decodeSegment } from './segment.ts'

/** The parsed request-target. The same object feeds the policy and the upstream. */
export type RequestTarget = Readonly<{
  method: string
  path: string
  /** The query with its question mark, or an empty string; a lone `?` is kept. */
  search: string
  /** The segments that the policy matches, decoded once. `/a/` ends in an empty one. */
  segments: readonly string[]
  hasEncodedSlash: boolean
}>

// Visible ASCII without the number sign: a fragment has no place in a request-target (RFC 9112 3.2).
const visible = /^[\x21\x22\x24-\x7e]*$/

/** Reads the target strictly (SPEC section 11): one that has two readings is refused. */
export function readTarget(
  method: string,
  target: string,
  host: string,
  limitBytes: number = usualHeadLimits.targetBytes,
): RequestTarget {
  if (target.length > limitBytes) throw new GatewayError('target_too_long')
  const origin = toOriginForm(target, host)
  if (!visible.test(origin)) throw new GatewayError('target_not_visible')
  const query = origin.indexOf('?')
  const path = query < 0 ? origin : origin.slice(0, query)
  const segments = readSegments(path)
  const hasEncodedSlash = path.includes('%') && segments.some((segment) => segment.includes('/'))
  return { method, path, search: query < 0 ? '' : origin.slice(query), segments, hasEncodedSlash }
}

/** Absolute form is accepted only where it names the host of the Host header (RFC 9112 3.2.2). */
function toOriginForm(target: string, host: string): string {
  if (target.startsWith('/')) return target
  const [, authority, rest] = /^https?:\/\/([^/?#\\]*)(.*)$/is.exec(target) ?? []
  if (authority === undefined || rest === undefined || authority.toLowerCase() !== host.toLowerCase())
    throw new GatewayError('target_not_origin_form')
  return rest.startsWith('/') ? rest : `/${rest}`
}

export function readSegments(path: string): readonly string[] {
  if (path.includes('\\')) throw new GatewayError('target_backslash')
  const segments: string[] = []
  for (let start = 1; start > 0; ) {
    const slash = path.indexOf('/', start)
    const segment = slash < 0 ? path.slice(start) : path.slice(start, slash)
    // Only the last segment may be empty: a trailing slash names another path.
    if (segment === '' && slash >= 0) throw new GatewayError('target_empty_segment')
    segments.push(decodeSegment(segment))
    start = slash + 1
  }
  return segments
}
