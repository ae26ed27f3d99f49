export const lineFeed = 0x0a
export const carriageReturn = 0x0d

/** Blank lines and comments of a keep-alive are shorter; for longer lines the native search is faster. */
const shortLineBytes = 8

export type FindLineEnd = (from: number) => number

/**
 * Finds the next LF or CR from a position on, or -1. Positions must not go back: each byte is read once, however many
 * lines there are.
 */
export function findLineEnds(bytes: Buffer): FindLineEnd {
  let nextLineFeed = -2
  let nextCarriageReturn = -2
  return (from) => {
    // In a stream of short lines a search for each of them would take most of the time.
    const near = Math.min(from + shortLineBytes, bytes.length)
    for (let index = from; index < near; index += 1) {
      const byte = bytes[index]
      if (byte === lineFeed || byte === carriageReturn) return index
    }
    if (nextLineFeed !== -1 && nextLineFeed < near) nextLineFeed = bytes.indexOf(lineFeed, near)
    if (nextCarriageReturn !== -1 && nextCarriageReturn < near) nextCarriageReturn = bytes.indexOf(carriageReturn, near)
    if (nextLineFeed < 0) return nextCarriageReturn
    return nextCarriageReturn < 0 ? nextLineFeed : Math.min(nextLineFeed, nextCarriageReturn)
  }
}
