import { GatewayError } from '../errors/gateway-error.ts'

/**
 * Encodings within encodings that are followed down. A name with a percent sign needs one or two;
 * past this depth nobody means a name.
 */
const decodingDepth = 8

/** The segment decoded once, after a look at every further decoding that a backend might try. */
export function decodeSegment(raw: string): string {
  if (!raw.includes('%')) {
    refuseHiddenDots(raw)
    return raw
  }
  if (/%(?![0-9a-f]{2})/i.test(raw)) throw new GatewayError('target_malformed')
  const decoded = decodeOnce(raw)
  let deeper = decoded
  for (let depth = 1; /%[0-9a-f]{2}/i.test(deeper); depth++) {
    if (depth === decodingDepth) throw new GatewayError('target_malformed')
    deeper = decodeOnce(deeper)
  }
  return decoded
}

/** Decodes what is a valid escape and leaves the rest; refuses what must not appear at any depth. */
function decodeOnce(text: string): string {
  // Runs are decoded together, since a character's UTF-8 bytes each have their own escape.
  const decoded = text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
    try {
      return decodeURIComponent(run) // throws on overlong, surrogate and otherwise invalid UTF-8
    } catch (error) {
      throw new GatewayError('target_malformed', { cause: error })
    }
  })
  // A slash or backslash here was encoded; C0, DEL and C1 are control bytes.
  if (/[/\\\p{Cc}]/u.test(decoded)) throw new GatewayError('target_malformed')
  refuseHiddenDots(decoded)
  return decoded
}

/**
 * `.` and `..`, also before a path parameter: servlet containers cut `;x` off and then resolve the dots,
 * or are left with an empty segment.
 */
function refuseHiddenDots(segment: string): void {
  const parameters = segment.indexOf(';')
  const name = parameters < 0 ? segment : segment.slice(0, parameters)
  if (name === '.' || name === '..' || (name === '' && parameters === 0)) throw new GatewayError('target_malformed')
}
