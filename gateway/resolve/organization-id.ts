import { GatewayError } from '../errors/gateway-error.ts'

const largestId = 2_147_483_647

/** A positive decimal integer without sign or leading zero, up to PostgreSQL's int4; undefined for anything else. */
export function parseId(text: string): number | undefined {
  if (!/^[1-9]\d{0,9}$/.test(text)) return undefined
  const id = Number(text)
  return id <= largestId ? id : undefined
}

/** The organization that `x-organization-id` names (SPEC section 3.1); undefined when the header is absent. */
export function readOrganizationId(lines: readonly string[]): number | undefined {
  const [value] = lines
  if (value === undefined) return undefined
  const id = lines.length === 1 ? parseId(value) : undefined
  if (id === undefined) throw new GatewayError('organization_header_malformed')
  return id
}

/**
 * The organization that the cookie names, by the same rules; an empty value is an absent one. Parsers disagree about what
 * separates cookies and what belongs to a name, so that a cookie that any of them reads as this one is this one, written
 * plainly, or is refused.
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
        // Within a quoted value some parsers read on, and others begin anew at each semicolon.
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

/** Around a value only these blanks are left out by all. */
const visibleOrBlank = /^[\t\x20-\x7e]*$/

/** An escape may be any character of the name. */
const mayHoldCookie = /current-org-id|%[0-9a-f]{2}/i

/**
 * How often one parser or another could begin a cookie of this name within the text. RFC 2109 parts cookies at commas,
 * Python at spaces; servlets and ASP.NET compare names without case; Rack and older PHP decode them.
 */
function countMentions(pair: string): number {
  let mentions = 0
  // Beyond visible ASCII there are spaces in one character set or another: all of it parts words here.
  for (const [word] of pair.matchAll(/[\x21-\x2b\x2d-\x7e]+/g)) if (readName(word) === cookieName) mentions += 1
  return mentions
}

/** The name that a word begins with, after quotes and the equals sign of a nameless cookie (CVE-2023-23934). */
function readName(word: string): string {
  let start = 0
  while (word[start] === '=' || word[start] === '"') start++
  const equals = word.indexOf('=', start)
  let name = word.slice(start, equals < 0 ? undefined : equals)
  for (let depth = 0; depth < 2 && name.includes('%'); depth++)
    name = decodeURIComponent(name.replace(/%(?![0-7][0-9a-f])/gi, '%25'))
  // PHP reads `name[key]` as an entry of `name`, and once ended it at an encoded NUL.
  return (/[\w.-]+/.exec(name)?.[0] ?? '').toLowerCase()
}

function countQuotes(text: string): number {
  let count = 0
  for (let at = text.indexOf('"'); at >= 0; at = text.indexOf('"', at + 1)) count++
  return count
}
