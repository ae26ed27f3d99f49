import { GatewayError } from '../errors/gateway-error.ts'
import { decodeOnce } from '../receive/segment.ts'
import type { RequestTarget } from '../receive/target.ts'

/** An escape, a capital letter, a path parameter, a slash or a dot at an end: other servers may read these otherwise. */
const ambiguous = /[%;A-Z]|\/$|\.(?:\/|$)/

/** More readings than any path has that was written to be understood. */
const mostReadings = 256

/**
 * Characters that changes may rewrite for one target: less than 1 ms of processor time, which is spent before
 * authentication. A count of readings bounds no work: 256 of them, of 8 KiB each, took 40 ms.
 */
export const mostCharacters = 96 * 1024

/** A short reading costs no less to change than one of so many characters. */
const leastCharacters = 64

/**
 * How else backends are known to read a path that `receive/` let through: not decoded at all or more than once, with
 * encoded slashes as slashes, without regard to case, by Unicode's compatibility forms, without path parameters, without
 * spaces around names or dots after them, without the trailing slash, and in any combination and order of these, since
 * one server cuts parameters off before it decodes and another after. Without the reading that the table goes by.
 *
 * @param mostSegments Segments that the caller looks at; the rest of a longer reading is left out.
 * @throws GatewayError `target_misreadable` for a path that takes too much work, or with a dot segment in one of its
 * readings.
 */
export function otherReadings(
  { path, segments }: Pick<RequestTarget, 'path' | 'segments'>,
  mostSegments?: number,
): readonly (readonly string[])[] {
  if (!ambiguous.test(path)) return []
  const readings = new Set([path.slice(1).replaceAll('/', separator)])
  let characters = 0
  // The loop comes to what it adds as well, until no change leads to anything new.
  for (const reading of readings) {
    const traits = findTraits(reading)
    if ((traits & trait.dotSegment) !== 0) throw new GatewayError('target_like_dot_segment')
    if (readings.size > mostReadings) throw new GatewayError('target_with_many_readings')
    for (const { needs, passes = 1, apply } of changes) {
      // Most changes have nothing to change in most readings.
      if ((traits & needs) === 0) continue
      characters += passes * Math.max(reading.length, leastCharacters)
      if (characters > mostCharacters) throw new GatewayError('target_with_many_readings')
      readings.add(apply(reading))
    }
  }
  readings.delete(segments.join(separator))
  return Array.from(readings, (reading) => reading.split(separator, mostSegments))
}

/** Between the segments of a reading, since a slash may be part of one: `receive/` lets no control byte in. */
const separator = '\0'

/** Marks of a reading, one bit each. A mark may be set in vain, but it is never missing where its change has work. */
const trait = {
  escape: 1,
  slash: 2,
  letter: 4,
  beyondAscii: 8,
  parameter: 16,
  outerSpace: 32,
  endDot: 64,
  endSlash: 128,
  dotSegment: 256,
  emptySegment: 512,
}

type Change = Readonly<{ needs: number; passes?: number; apply: (reading: string) => string }>

// Each expression starts at most once in a run of what it looks for: time stays in proportion to the length.
const changes: readonly Change[] = [
  { needs: trait.escape, passes: 2, apply: decodeOnce },
  // Of the two only the slash comes through `receive/` as it is; the other is a fullwidth one's compatibility form.
  { needs: trait.slash, apply: (reading) => reading.replace(/[/\\]/g, separator) },
  // Up and down again: some letters beyond ASCII, such as the long s, have a plain one's capital.
  { needs: trait.letter | trait.beyondAscii, apply: (reading) => reading.toUpperCase().toLowerCase() },
  { needs: trait.beyondAscii, apply: foldCompatible },
  { needs: trait.parameter, apply: (reading) => reading.replace(/;[^\0]*/g, '') },
  {
    needs: trait.outerSpace,
    apply: (reading) => reading.replace(/(?:^|(?<=\0))\s+|(?<!\s)\s+(?=\0|$)/g, ''),
  },
  // Windows opens the file `name` for `name.`, however many dots there are.
  { needs: trait.endDot, apply: (reading) => reading.replace(/(?<!\.)\.+(?=\0|$)/g, '') },
  // Names of dots or spaces alone are none to Windows, and many servers leave empty segments out.
  { needs: trait.emptySegment, apply: (reading) => reading.replace(/^\0+|(?<=\0)\0+/g, '') },
  { needs: trait.endSlash, apply: (reading) => reading.slice(0, -1) },
]

/** UAX #15 D4: a text is stream-safe with up to 30 marks in a row; more of them take ICU quadratic time to order. */
const unsafeMarks = /\p{M}{31}/u

/** Compatibility forms: `．` and `․` are a dot to servers that normalize names, `／` a slash, `ａ` an a. */
function foldCompatible(reading: string): string {
  if (unsafeMarks.test(reading)) throw new GatewayError('target_with_many_readings')
  return reading.normalize('NFKC')
}

/** What stands in a reading, found in one pass: a test for each change would cost more than most changes. */
function findTraits(reading: string): number {
  const end = reading.length
  let traits = 0
  let segmentStart = 0
  for (let index = 0; index <= end; index++) {
    const code = index === end ? 0 : reading.charCodeAt(index)
    if (code > 127) traits |= trait.beyondAscii
    else if (code === 0) {
      traits |= findEndTraits(reading, segmentStart, index)
      segmentStart = index + 1
    } else if (code !== percent) traits |= traitsOf[code] ?? 0
    else if (isHexDigit(reading.charCodeAt(index + 1)) && isHexDigit(reading.charCodeAt(index + 2)))
      traits |= trait.escape
  }
  return end > 0 && reading.charCodeAt(end - 1) === 0 ? traits | trait.endSlash : traits
}

function findEndTraits(reading: string, start: number, end: number): number {
  // The last one is empty behind a slash at the end, which is a mark of its own.
  if (start === end) return end < reading.length ? trait.emptySegment : 0
  const last = reading.charCodeAt(end - 1)
  const traits = maySpace(last) || maySpace(reading.charCodeAt(start)) ? trait.outerSpace : 0
  if (last !== dot) return traits
  const isDotSegment = end - start === 1 || (end - start === 2 && reading.charCodeAt(start) === dot)
  return traits | trait.endDot | (isDotSegment ? trait.dotSegment : 0)
}

const dot = 46
const percent = 37

const isHexDigit = (code: number): boolean =>
  (code >= 48 && code <= 57) || (code >= 65 && code <= 70) || (code >= 97 && code <= 102)

/** Beyond ASCII there are spaces too. */
const maySpace = (code: number): boolean => code <= 32 || code > 127

const traitsOf = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code)
  if (character === '/' || character === '\\') return trait.slash
  if (character === ';') return trait.parameter
  return /[A-Z]/.test(character) ? trait.letter : 0
})
