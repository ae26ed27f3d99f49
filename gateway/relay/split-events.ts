import { carriageReturn, findLineEnds, lineFeed } from './line-ends.ts'

/** What a chunk made whole: blocks that lie one after the other from the start of `bytes`, up to each of `ends`. */
export type Split = Readonly<{
  /** The upstream's own bytes: what was held of an unfinished block, then the chunk. */
  bytes: Buffer
  ends: readonly number[]
  /** The block after the last of `ends` is over the limit; nothing can be split after it. */
  isTooLarge: boolean
}>

/** Of what was split: mostly all of it, a chunk with one event in it, and a view costs as much as to read a line. */
export const part = (bytes: Buffer, start: number, end: number): Buffer =>
  start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end)

const nothing = Buffer.alloc(0)

/**
 * Cuts an event stream behind its blank lines (WHATWG HTML 9.2.6: a line ends in LF, CR LF or CR), and keeps what is
 * not whole yet. It changes no byte, looks at each once, and copies each a few times at most.
 */
export class EventSplitter {
  readonly #limitBytes: number
  #held = nothing
  #heldBytes = 0
  #isLineStart = true
  #hasEndedInCarriageReturn = false

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** The memory that an unfinished block takes. */
  get keptBytes(): number {
    return this.#held.length
  }

  /** Forgets it: nothing more is to be split. */
  drop(): void {
    this.#held = nothing
    this.#heldBytes = 0
  }

  split(chunk: Buffer): Split {
    const ends = this.#findEnds(chunk)
    if (ends.length === 0) {
      this.#hold(chunk)
      return { bytes: chunk, ends, isTooLarge: this.#heldBytes > this.#limitBytes }
    }
    const bytes = this.#heldBytes === 0 ? chunk : Buffer.concat([this.#held.subarray(0, this.#heldBytes), chunk])
    let last = 0
    for (const end of ends) {
      if (end - last > this.#limitBytes) return { bytes, ends: ends.slice(0, ends.indexOf(end)), isTooLarge: true }
      last = end
    }
    this.#held = nothing
    this.#heldBytes = 0
    if (last < bytes.length) this.#hold(bytes.subarray(last))
    return { bytes, ends, isTooLarge: this.#heldBytes > this.#limitBytes }
  }

  /** The positions right after blank lines, as they will be once the chunk stands behind what is held. */
  #findEnds(chunk: Buffer): number[] {
    const ends: number[] = []
    if (chunk.length === 0) return ends
    const findLineEnd = findLineEnds(chunk)
    let position = 0
    // The other half of a line end: its CR has ended the line already, and the block too if nothing is held.
    if (this.#hasEndedInCarriageReturn && chunk[0] === lineFeed) {
      position = 1
      if (this.#heldBytes === 0) ends.push(1)
    }
    let isLineStart = this.#isLineStart
    for (let end = findLineEnd(position); end >= 0; end = findLineEnd(position)) {
      const isBlank = isLineStart && end === position
      position = end + (chunk[end] === carriageReturn && chunk[end + 1] === lineFeed ? 2 : 1)
      isLineStart = true
      if (isBlank) ends.push(this.#heldBytes + position)
    }
    this.#isLineStart = isLineStart && position === chunk.length
    this.#hasEndedInCarriageReturn = chunk[chunk.length - 1] === carriageReturn
    return ends
  }

  /** Doubles its room as it grows, so that an event in many small pieces is not copied for each of them. */
  #hold(bytes: Buffer): void {
    const size = this.#heldBytes + bytes.length
    if (size > this.#held.length) {
      const wider = Buffer.allocUnsafe(Math.max(size, this.#held.length * 2))
      this.#held.copy(wider, 0, 0, this.#heldBytes)
      this.#held = wider
    }
    bytes.copy(this.#held, this.#heldBytes)
    this.#heldBytes = size
  }
}
