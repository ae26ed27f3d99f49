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
    text = text.replace(/%([0-7][0-9a-f])/gi, (_escape, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
  }
  return segment
}

/** An API token, or a JWT from its header on. Without one pattern for it all: paths are long, and clients hostile. */
const holdsCredential = (text: string): boolean =>
  text.includes('oat_') || text.split(/[^\w.-]/).some((run) => run.split('.').slice(0, -1).some(isJwtPart))

/** `{"` in base64url, and more of it than a name would have. */
function isJwtPart(part: string): boolean {
  const start = part.indexOf('eyJ')
  return start >= 0 && part.length - start >= 11
}
