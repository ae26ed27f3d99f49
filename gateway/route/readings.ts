import { GatewayError } from '../errors/gateway-error.ts'
import { decodeOnce } from '../receive/segment.ts'
import type { RequestTarget } from '../receive/target.ts'

/** What somebody may read otherwise: an escape, a capital letter, a path parameter, a slash or a dot at an end. */
const ambiguous = /[%;A-Z]|\/$|\.(?:\/|$)/

/** More readings than any path has that was written to be understood. */
const mostReadings = 256

/**
 * How else backends are known to read a path that `receive/` let through: not decoded at all or more than once, with
 * encoded slashes as slashes, without regard to case, without path parameters, without spaces around names or dots after
 * them, without the trailing slash, and in any combination and order of these, since one server cuts parameters off
 * before it decodes and another after. Without the reading that the table goes by.
 *
 * @throws GatewayError `target_misreadable` for a path of too many readings, or with a dot segment in one of them.
 */
export function otherReadings({ path, segments }: RequestTarget): readonly (readonly string[])[] {
  if (!ambiguous.test(path)) return []
  const readings = new Set([path.slice(1).replaceAll('/', separator)])
  // The loop comes to what it adds as well, until no change leads to anything new.
  for (const reading of readings) {
    if (dotSegment.test(reading) || readings.size > mostReadings) throw new GatewayError('target_misreadable')
    for (const change of changes) readings.add(change(reading))
  }
  readings.delete(segments.join(separator))
  return Array.from(readings, (reading) => reading.split(separator))
}

/** Between the segments of a reading, since a slash may be part of one: `receive/` lets no control byte in. */
const separator = '\0'

const dotSegment = /(?:^|\0)\.\.?(?:\0|$)/

// Each expression starts at most once in a run of what it looks for: time stays in proportion to the length.
const changes: readonly ((reading: string) => string)[] = [
  decodeOnce,
  (reading) => reading.replaceAll('/', separator),
  // Up and down again: some letters beyond ASCII, such as the long s, have a plain one's capital.
  (reading) => reading.toUpperCase().toLowerCase(),
  (reading) => reading.replace(/;[^\0]*/g, ''),
  (reading) => reading.replace(/(?:^|(?<=\0))\s+|(?<!\s)\s+(?=\0|$)/g, ''),
  // Windows opens the file `name` for `name.`, however many dots there are.
  (reading) => reading.replace(/(?<!\.)\.+(?=\0|$)/g, ''),
  (reading) => reading.replace(/\0$/, ''),
]
