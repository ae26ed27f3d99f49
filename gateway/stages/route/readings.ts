import { GatewayError } from '../../base/errors/gateway-error.ts'
import { decodeOnce } from '../receive/segment.ts'
import type { RequestTarget } from '../receive/target.ts'

/**
 * Escapes, capitals, path parameters, and a slash or a dot at an end: other servers may interpret these differently.
 */
const ambiguous = /[%;A-Z]|\/$|\.(?:\/|$)/

/** Honest paths have a handful. This bounds the set in memory, as `mostCharacters` bounds the work. */
const mostReadings = 256

/**
 * Characters that all changes of one target may rewrite, which takes under 1 ms of CPU before authentication. A count
 * of readings alone does not bound the work: 256 readings of 8 KiB took 40 ms.
 */
export const mostCharacters = 96 * 1024

/** To set up a change costs about as much as so many characters, so that short readings are not free. */
const leastCharacters = 64

/**
 * Returns the other interpretations that backends are known to have of a path that passed `stages/receive/`. Some decode it
 * never or twice, or take encoded slashes as slashes. Others ignore case, apply Unicode's compatibility forms, or drop
 * path parameters. A proxy that composes its target from the decoded path ends it at `?` or `#`. Some drop spaces around
 * names, dots after them, or the trailing slash. All combinations and orders count, since one server cuts parameters
 * before it decodes and another after.
 * @param mostSegments Segments that the caller reads; the rest of a longer reading is left out.
 * @throws GatewayError `target_with_many_readings` if the path takes too much work, or `target_like_dot_segment` if a
 * reading has a dot segment.
 */
export function otherReadings(
  { path, segments }: Pick<RequestTarget, 'path' | 'segments'>,
  mostSegments?: number,
): readonly (readonly string[])[] {
  if (!ambiguous.test(path)) return []
  const readings = new Set([path.slice(1).replaceAll('/', separator)])
  let characters = 0
  for (const reading of readings) {
    const traits = findTraits(reading)
    if ((traits & trait.dotSegment) !== 0) throw new GatewayError('target_like_dot_segment')
    if (readings.size > mostReadings) throw new GatewayError('target_with_many_readings')
    for (const { needs, passes = 1, apply } of changes) {
      if ((traits & needs) === 0) continue
      characters += passes * Math.max(reading.length, leastCharacters)
      if (characters > mostCharacters) throw new GatewayError('target_with_many_readings')
      readings.add(apply(reading))
    }
  }
  readings.delete(segments.join(separator))
  return Array.from(readings, (reading) => reading.split(separator, mostSegments))
}

/** Separates the segments of a reading, where a slash may be part of a segment. `stages/receive/` refuses control bytes. */
const separator = '\0'

/** Traits of a reading, one bit each. A trait may be set in vain, but is never missing if its change has work. */
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
  end: 1_024,
}

type Change = Readonly<{ needs: number; passes?: number; apply: (reading: string) => string }>

// Each expression starts at most once in a run of matching characters, so its time is linear.
const changes: readonly Change[] = [
  { needs: trait.escape, passes: 2, apply: decodeOnce },
  // A backslash cannot pass `stages/receive/`, but is the compatibility form of a fullwidth one.
  { needs: trait.slash, apply: (reading) => reading.replace(/[/\\]/g, separator) },
  // Up and down again, because letters such as the long s have an ASCII capital.
  { needs: trait.letter | trait.beyondAscii, apply: (reading) => reading.toUpperCase().toLowerCase() },
  { needs: trait.beyondAscii, apply: foldCompatible },
  { needs: trait.parameter, apply: (reading) => reading.replace(/;[^\0]*/g, '') },
  { needs: trait.end, apply: (reading) => reading.slice(0, reading.search(/[?#]/)) },
  {
    needs: trait.outerSpace,
    apply: (reading) => reading.replace(/(?:^|(?<=\0))\s+|(?<!\s)\s+(?=\0|$)/g, ''),
  },
  // Windows opens the file `name` for `name.`, however many dots there are.
  { needs: trait.endDot, apply: (reading) => reading.replace(/(?<!\.)\.+(?=\0|$)/g, '') },
  // Windows drops names of dots or spaces alone, and many servers drop empty segments.
  { needs: trait.emptySegment, apply: (reading) => reading.replace(/^\0+|(?<=\0)\0+/g, '') },
  { needs: trait.endSlash, apply: (reading) => reading.slice(0, -1) },
]

/** UAX #15 D4: stream-safe text has up to 30 marks in a row. ICU takes quadratic time to order more. */
const unsafeMarks = /\p{M}{31}/u

function foldCompatible(reading: string): string {
  if (unsafeMarks.test(reading)) throw new GatewayError('target_with_many_readings')
  return reading.normalize('NFKC')
}

/** One pass: a test for each change would cost more than most changes. */
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

const maySpace = (code: number): boolean => code <= 32 || code > 127

const traitsOf = Uint16Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code)
  if (character === '/' || character === '\\') return trait.slash
  if (character === ';') return trait.parameter
  if (character === '?' || character === '#') return trait.end
  return /[A-Z]/.test(character) ? trait.letter : 0
})
