import { decodeFurther } from '../receive/segment.ts'
import type { RequestTarget } from '../receive/target.ts'

/** What nobody reads in two ways: no escape, capital letter, path parameter or trailing slash. */
const plain = /^(?:\/[^%;A-Z/]+)*$/

/**
 * How else backends are known to read a path that `receive/` let through: not decoded at all or more than once, with
 * encoded slashes as slashes, without regard to case, without path parameters, surrounding spaces or the trailing
 * slash, and in any combination of these. Without the reading that the table goes by.
 */
export function otherReadings({ path, segments }: RequestTarget): readonly (readonly string[])[] {
  if (plain.test(path)) return []
  const readings = new Map<string, readonly string[]>()
  for (const decoded of decodings(path, segments))
    for (const split of vary(decoded, splitSlashes))
      for (const folded of vary(split, foldCase))
        for (const cut of vary(folded, cutParameters))
          for (const trimmed of vary(cut, trimSpaces))
            for (const reading of vary(trimmed, dropTrailingSlash)) readings.set(JSON.stringify(reading), reading)
  readings.delete(JSON.stringify(segments))
  return [...readings.values()]
}

type Reading = readonly string[]

/** The path as it came, decoded once, and as often as somebody may. */
function decodings(path: string, segments: Reading): readonly Reading[] {
  if (!path.includes('%')) return [segments]
  const deeper = segments.map((segment) => [segment, ...decodeFurther(segment)])
  const depth = Math.max(...deeper.map(({ length }) => length))
  const decoded = Array.from({ length: depth }, (_, level) =>
    // A segment without more escapes stays as it is.
    deeper.map((steps) => steps[Math.min(level, steps.length - 1)] ?? ''),
  )
  return [path.slice(1).split('/'), ...decoded]
}

const vary = (reading: Reading, change: (reading: Reading) => Reading): readonly Reading[] => [reading, change(reading)]

const splitSlashes = (reading: Reading): Reading => reading.flatMap((segment) => segment.split('/'))

/** Up and down again: some letters beyond ASCII, such as the long s, have a plain one's capital. */
const foldCase = (reading: Reading): Reading => reading.map((segment) => segment.toUpperCase().toLowerCase())

const cutParameters = (reading: Reading): Reading => reading.map((segment) => segment.split(';', 1)[0] ?? '')

const trimSpaces = (reading: Reading): Reading => reading.map((segment) => segment.trim())

const dropTrailingSlash = (reading: Reading): Reading =>
  reading.length > 1 && reading.at(-1) === '' ? reading.slice(0, -1) : reading
