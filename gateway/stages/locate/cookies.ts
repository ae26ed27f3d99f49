import { trimBlanks } from '../../base/lib/trim-blanks.ts'

export type CookieRules = 'forward' | 'strip' | ReadonlySet<string>

export const toCookieRules = (written: 'forward' | 'strip' | readonly string[]): CookieRules =>
  typeof written === 'string' ? written : new Set(written)

/**
 * Filters a `Cookie` header, undefined if nothing remains. Names are compared exactly, so an odd spelling does not
 * pass.
 */
export function keepCookies(line: string, rules: CookieRules): string | undefined {
  if (rules === 'forward') return line
  if (rules === 'strip') return undefined
  const kept = line
    .split(';')
    .map(trimBlanks)
    .filter((pair) => isNamed(pair, rules))
  return kept.length === 0 ? undefined : kept.join('; ')
}

/** RFC 6265 5.2: a cookie without `=` has no name, so only `forward` passes it. */
export const mayKeepSetCookie = (line: string, rules: CookieRules): boolean =>
  rules === 'forward' || (rules !== 'strip' && isNamed(trimBlanks(line.split(';', 1)[0] ?? ''), rules))

function isNamed(pair: string, names: ReadonlySet<string>): boolean {
  const end = pair.indexOf('=')
  return end > 0 && names.has(pair.slice(0, end))
}
