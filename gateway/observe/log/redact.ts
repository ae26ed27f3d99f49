/** Nobody encodes a token more often than this by mistake. */
const decodingDepth = 3

/**
 * Credentials have no business in a path or in an error's message; where one is put there all the same, its segment or
 * word stays out of what is written down, however it is escaped. So do names and passwords of connection strings.
 */
export const redact = (text: string): string =>
  mayHoldCredential(text)
    ? text
        .replace(userInfo, '[redacted]')
        .split(/([/\s])/)
        .map(redactSegment)
        .join('')
    : text

/** Most texts hold none of what every credential here holds, even escaped. */
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

/** No credential holds other characters. */
const asciiEscape = /%[0-7][0-9a-f]/gi

const decodeEscape = (text: string): string => String.fromCharCode(Number.parseInt(text.slice(1), 16))

/** An API token, or a JWT from its header on: `{"` in base64url, and more of it than a name would have, before a dot. */
function holdsCredential(text: string): boolean {
  if (text.includes('oat_')) return true
  // Each match takes the rest of its word, so that no character is looked at twice: paths are long, and clients hostile.
  for (const [part] of text.includes('eyJ') ? text.matchAll(/eyJ[\w-]*\.?/g) : [])
    if (part.endsWith('.') && part.length >= 12) return true
  return false
}
