/** What `Cache-Control` says that a shared cache may or may not do (RFC 9111 5.2.2). */
const telling: ReadonlySet<string> = new Set(['public', 'private', 'no-store', 'must-revalidate'])

/**
 * The `Cache-Control` of an answer for its caller alone: shared caches know `Authorization`, but no other credential, and are
 * told here what RFC 9111 3.5 has them do by themselves. Undefined where the lines say enough and stay as they are.
 */
export function composeCacheControl(
  lines: readonly string[] | undefined,
  pragma: readonly string[] | undefined,
): string | undefined {
  if (!lines) return pragma?.some(asksForNoCache) ? 'no-cache' : 'private'
  const [only = ''] = lines
  return lines.length === 1 ? remember(only) : compose(lines)
}

/** Backends say few of them, and one that invents more finds no more room than this. */
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

/** In characters; no backend says more, and to part 64 KiB of commas takes 7 ms. */
const longest = 8_192

function compose(lines: readonly string[]): string | undefined {
  const said = lines.join(', ')
  if (said.length > longest) return 'no-store'
  const directives = lines.flatMap((line) => splitDirectives(line) ?? [malformed])
  // What one cache reads as a quoted text another reads as directives.
  if (directives.includes(malformed)) return 'private'
  if (directives.some(isTelling)) return undefined
  return said.trim() === '' ? 'private' : `${said}, private`
}

const asksForNoCache = (line: string): boolean =>
  line.split(',').some((part) => part.trim().toLowerCase() === 'no-cache')

/** With an argument they are about some fields alone (`private="set-cookie"`), or are malformed. */
function isTelling(directive: string): boolean {
  const plain = directive.toLowerCase()
  return telling.has(plain) || /^s-maxage=(?:\d{1,19}|"\d{1,19}")$/.test(plain)
}

const malformed = '"'

/** The parts between commas that stand in no quoted text (RFC 9110 5.6.4); undefined where one does not end. */
function splitDirectives(text: string): readonly string[] | undefined {
  if (!text.includes('"')) return text.split(',').map((part) => part.trim())
  const parts: string[] = []
  let start = 0
  let isQuoted = false
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index]
    if (isQuoted && character === '\\') index += 1
    else if (character === '"') isQuoted = !isQuoted
    else if (character === ',' && !isQuoted) {
      parts.push(text.slice(start, index).trim())
      start = index + 1
    }
  }
  return isQuoted ? undefined : [...parts, text.slice(start).trim()]
}
