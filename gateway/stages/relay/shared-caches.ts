import { trimBlanks } from '../../base/lib/trim-blanks.ts'

const telling: ReadonlySet<string> = new Set(['public', 'private', 'no-store', 'must-revalidate'])

/**
 * Returns the `Cache-Control` of a response that is for its caller alone; undefined if the headers already restrict
 * caches. Shared caches respect `Authorization` (RFC 9111 3.5) but know no other credential, so this header tells them.
 */
export function composeCacheControl(
  lines: readonly string[] | undefined,
  pragma: readonly string[] | undefined,
): string | undefined {
  if (!lines) return pragma?.some(asksForNoCache) ? 'no-cache' : 'private'
  const [only = ''] = lines
  return lines.length === 1 ? remember(only) : compose(lines)
}

/** Backends send few and short values. One that invents more takes 64 KiB of characters at most. */
const rememberedValues = 256
const rememberedLength = 128
const remembered = new Map<string, string | undefined>()

function remember(said: string): string | undefined {
  const known = remembered.get(said)
  if (known !== undefined || remembered.has(said)) return known
  const composed = compose([said])
  if (remembered.size < rememberedValues && said.length <= rememberedLength) remembered.set(said, composed)
  return composed
}

/** In characters. Backends send far less, and splitting 64 KiB of commas takes 7 ms. */
const longest = 8_192

function compose(lines: readonly string[]): string | undefined {
  const said = lines.join(', ')
  if (said.length > longest) return 'no-store'
  const directives = lines.flatMap((line) => splitDirectives(line) ?? [malformed])
  // Caches disagree about an unclosed quote: one reads quoted text where another reads directives.
  if (directives.includes(malformed)) return 'private'
  if (directives.some(isTelling)) return undefined
  return trimBlanks(said) === '' ? 'private' : `${said}, private`
}

const asksForNoCache = (line: string): boolean =>
  line.split(',').some((part) => trimBlanks(part).toLowerCase() === 'no-cache')

/** A directive with an argument covers some fields alone (`private="set-cookie"`) or is malformed. */
function isTelling(directive: string): boolean {
  const plain = directive.toLowerCase()
  return telling.has(plain) || /^s-maxage=(?:\d{1,19}|"\d{1,19}")$/.test(plain)
}

const malformed = '"'

function splitDirectives(text: string): readonly string[] | undefined {
  if (!text.includes('"')) return text.split(',').map(trimBlanks)
  const parts: string[] = []
  let start = 0
  let isQuoted = false
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index]
    if (isQuoted && character === '\\') index += 1
    else if (character === '"') isQuoted = !isQuoted
    else if (character === ',' && !isQuoted) {
      parts.push(trimBlanks(text.slice(start, index)))
      start = index + 1
    }
  }
  return isQuoted ? undefined : [...parts, trimBlanks(text.slice(start))]
}
