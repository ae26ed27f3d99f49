/** Which cookies pass, in both directions: all, none, or those of these names. */
export type CookieRules = 'forward' | 'strip' | ReadonlySet<string>

/** As the configuration has it. */
export const toCookieRules = (written: 'forward' | 'strip' | readonly string[]): CookieRules =>
  typeof written === 'string' ? written : new Set(written)

/** What remains of a `Cookie` line; undefined for nothing. A name counts to the letter, so that an odd one does not pass. */
export function keepCookies(line: string, rules: CookieRules): string | undefined {
  if (rules === 'forward') return line
  if (rules === 'strip') return undefined
  const kept = line
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => isNamed(pair, rules))
  return kept.length === 0 ? undefined : kept.join('; ')
}

/** Whether a `Set-Cookie` line passes (RFC 6265 5.2: a cookie without `=` has no name). */
export const mayKeepSetCookie = (line: string, rules: CookieRules): boolean =>
  rules === 'forward' || (rules !== 'strip' && isNamed((line.split(';', 1)[0] ?? '').trim(), rules))

function isNamed(pair: string, names: ReadonlySet<string>): boolean {
  const end = pair.indexOf('=')
  return end > 0 && names.has(pair.slice(0, end))
}
