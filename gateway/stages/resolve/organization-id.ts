import { GatewayError } from '../../base/errors/gateway-error.ts'

/** The largest `integer` of PostgreSQL: a larger id would make each query an error. */
const largestId = 2_147_483_647

export function parseId(text: string): number | undefined {
  if (!/^[1-9]\d{0,9}$/.test(text)) return undefined
  const id = Number(text)
  return id <= largestId ? id : undefined
}

export function readOrganizationId(lines: readonly string[]): number | undefined {
  const [value] = lines
  if (value === undefined) return undefined
  const id = lines.length === 1 ? parseId(value) : undefined
  if (id === undefined) throw new GatewayError('organization_header_malformed')
  return id
}

/**
 * Reads the organization from the cookie; an empty value counts as absent. Parsers disagree about separators and names,
 * so a cookie that any of them could read as this one must be written plainly, or it is refused.
 */
export function readOrganizationCookie(cookieLines: readonly string[]): number | undefined {
  let value: string | undefined
  let quotes = 0
  for (const line of cookieLines) {
    if (!mayHoldCookie.test(line)) continue
    for (const pair of line.split(';')) {
      const mentions = countMentions(pair)
      if (mentions > 0) {
        const plain = /^[ \t]*current-org-id=(.*)$/.exec(pair)?.[1]
        const isAlone = plain !== undefined && mentions === 1 && value === undefined
        // After an open quote some parsers read on, and others begin a new cookie at each semicolon.
        if (!isAlone || quotes % 2 === 1 || !visibleOrBlank.test(plain))
          throw new GatewayError('organization_cookie_malformed')
        value = plain.trim()
      }
      quotes += countQuotes(pair)
    }
  }
  if (value === undefined || value === '') return undefined
  const id = parseId(value)
  if (id === undefined) throw new GatewayError('organization_cookie_malformed')
  return id
}

const cookieName = 'current-org-id'

const visibleOrBlank = /^[\t\x20-\x7e]*$/

const mayHoldCookie = /current-org-id|%[0-9a-f]{2}/i

/**
 * Counts the places where some parser could begin a cookie of this name. RFC 2109 splits cookies at commas, Python at
 * spaces. Servlets and ASP.NET ignore case; Rack and older PHP decode escapes.
 */
function countMentions(pair: string): number {
  let mentions = 0
  // Characters beyond visible ASCII include the spaces of some character set, so all of them split words here.
  for (const [word] of pair.matchAll(/[\x21-\x2b\x2d-\x7e]+/g)) if (readName(word) === cookieName) mentions += 1
  return mentions
}

/** Drops quotes and the equals sign of a nameless cookie (CVE-2023-23934). */
function readName(word: string): string {
  let start = 0
  while (word[start] === '=' || word[start] === '"') start++
  const equals = word.indexOf('=', start)
  let name = word.slice(start, equals < 0 ? undefined : equals)
  for (let depth = 0; depth < 2 && name.includes('%'); depth++)
    name = decodeURIComponent(name.replace(/%(?![0-7][0-9a-f])/gi, '%25'))
  // PHP reads `name[key]` as an entry of `name`, and old versions end the name at an encoded NUL.
  return (/[\w.-]+/.exec(name)?.[0] ?? '').toLowerCase()
}

function countQuotes(text: string): number {
  let count = 0
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) count++
  return count
}
