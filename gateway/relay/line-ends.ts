export const lineFeed = 0x0a
export const carriageReturn = 0x0d

/**
 * Finds the next LF or CR from a position on, or -1. Positions must not go back: each byte is read once, however many
 * lines there are.
 */
export function findLineEnds(bytes: Buffer): (from: number) => number {
  let nextLineFeed = -2
  let nextCarriageReturn = -2
  return (from) => {
    const first = bytes[from]
    // In a stream of short lines a search for each of them would take most of the time.
    if (first === lineFeed || first === carriageReturn) return from
    if (nextLineFeed !== -1 && nextLineFeed < from) nextLineFeed = bytes.indexOf(lineFeed, from)
    if (nextCarriageReturn !== -1 && nextCarriageReturn < from) nextCarriageReturn = bytes.indexOf(carriageReturn, from)
    if (nextLineFeed < 0) return nextCarriageReturn
    return nextCarriageReturn < 0 ? nextLineFeed : Math.min(nextLineFeed, nextCarriageReturn)
  }
}
