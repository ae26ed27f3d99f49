import { GatewayError } from '../../base/errors/gateway-error.ts'

/** Nested encodings that are followed. An honest name with a percent sign needs one or two. */
const decodingDepth = 8

/**
 * Decodes a segment once, and checks every further decoding that a backend might try. Whether an encoded slash may pass
 * is decided by the route.
 */
export function decodeSegment(raw: string): string {
  if (!raw.includes('%')) {
    refuseHiddenDots(raw)
    return raw
  }
  if (/%(?![0-9a-f]{2})/i.test(raw)) throw new GatewayError('target_bad_escape')
  const decoded = decodeOnce(raw)
  const pieces = decoded.split('/')
  // Once a backend decodes the slash, it leaves an empty segment.
  if (pieces.length > 1 && pieces.includes('')) throw new GatewayError('target_empty_segment')
  for (const piece of pieces) refuseAtAnyDepth(piece)
  return decoded
}

function decodeFurther(text: string): readonly string[] {
  const readings: string[] = []
  for (let deeper = text; hasEscape(deeper) && readings.length < decodingDepth; readings.push(deeper))
    deeper = decodeOnce(deeper)
  return readings
}

const hasEscape = (text: string): boolean => /%[0-9a-f]{2}/i.test(text)

export function decodeOnce(text: string): string {
  try {
    // One call for the whole text: a call for each run of escapes costs ten times as much.
    return decodeURIComponent(text.replace(strayPercent, '%25'))
  } catch (error) {
    throw new GatewayError('target_bad_utf8', { cause: error }) // overlong, surrogate and otherwise invalid UTF-8
  }
}

const strayPercent = /%(?![0-9a-f]{2})/gi

function refuseAtAnyDepth(piece: string): void {
  const readings = [piece, ...decodeFurther(piece)]
  // Each further decoding costs an attacker a longer target, and the gateway one more check.
  if (readings.length > decodingDepth) throw new GatewayError('target_nested_escapes')
  for (const reading of readings) {
    // A slash or backslash here was encoded; C0, DEL and C1 are control bytes.
    if (/[/\\\p{Cc}]/u.test(reading)) throw new GatewayError('target_hidden_byte')
    refuseHiddenDots(reading)
  }
}

/**
 * `.` and `..`, also before a path parameter: servlet containers cut `;x` off and then resolve the dots,
 * or are left with an empty segment.
 */
function refuseHiddenDots(segment: string): void {
  const parameters = segment.indexOf(';')
  const name = parameters < 0 ? segment : segment.slice(0, parameters)
  if (name === '.' || name === '..' || (name === '' && parameters === 0)) throw new GatewayError('target_dot_segment')
}
