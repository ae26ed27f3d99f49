/** Clients that escape a token by mistake do so at most this often. */
const decodingDepth = 3

/**
 * Removes credentials from a path or an error message, by segment or word and however they are escaped. It also removes
 * user names and passwords of connection strings.
 */
export const redact = (text: string): string =>
  mayHoldCredential(text)
    ? text
        .replace(userInfo, '[redacted]')
        .split(/([/\s])/)
        .map(redactSegment)
        .join('')
    : text

/** Characters of a path that records read: the 1,024 that one shows at most, and the rest of a credential behind them. */
export const readCharacters = 1_536

let lastPath = ''
let lastShown = ''

/**
 * The beginning of a path without credentials, as records show it. Its cost does not grow with the path, and it is made
 * once for all records of a request, which follow each other.
 */
export function redactPath(path: string): string {
  if (path === lastPath) return lastShown
  lastShown = redact(readBeginning(path))
  lastPath = path
  return lastShown
}

/** A segment that is cut may hold half a credential, so it is left out, unless more of it is read than is shown. */
function readBeginning(path: string): string {
  if (path.length <= readCharacters) return path
  const cut = path.slice(0, readCharacters)
  const segmentStart = cut.lastIndexOf('/') + 1
  return readCharacters - segmentStart > readCharacters / 2 ? cut : cut.slice(0, segmentStart)
}

/** A quick test: every credential has one of these marks, even if escaped. */
const mayHoldCredential = (text: string): boolean => /oat_|eyJ|%|:\/\//.test(text)

const userInfo = /(?<=:\/\/)[^/\s:@]*:[^/\s]*(?=@)/g

function redactSegment(segment: string): string {
  let text = segment
  for (let depth = 0; depth <= decodingDepth; depth++) {
    if (holdsCredential(text)) return '[redacted]'
    const decoded = text.includes('%') ? text.replace(asciiEscape, decodeEscape) : text
    if (decoded === text) break
    text = decoded
  }
  return segment
}

const asciiEscape = /%[0-7][0-9a-f]/gi

const decodeEscape = (text: string): string => String.fromCharCode(Number.parseInt(text.slice(1), 16))

/** An API token, or a JWT: `{"` in base64url, then more characters than a name would have, then a dot. */
function holdsCredential(text: string): boolean {
  if (text.includes('oat_')) return true
  // Each match takes the rest of its word, so that each character is read once: clients may send hostile paths.
  for (const [part] of text.includes('eyJ') ? text.matchAll(/eyJ[\w-]*\.?/g) : [])
    if (part.endsWith('.') && part.length >= 12) return true
  return false
}
