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
