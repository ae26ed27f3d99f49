import { carriageReturn, findLineEnds, lineFeed } from './line-ends.ts'

export type Split = Readonly<{
  bytes: Buffer
  ends: readonly number[]
  isTooLarge: boolean
}>

/**
 * Avoids a new view if the part is the whole chunk, the usual case: creating a view costs as much as reading a line.
 */
export const part = (bytes: Buffer, start: number, end: number): Buffer =>
  start === 0 && end === bytes.length ? bytes : bytes.subarray(start, end)

const nothing = Buffer.alloc(0)

/** Room for the line ends that `takeRest` adds. */
const closingBytes = 2

/**
 * Cuts an event stream after its blank lines (WHATWG HTML 9.2.6: a line ends in LF, CR LF or CR) and keeps the
 * unfinished block. It changes no byte, reads each once, and copies each a few times at most.
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

  get keptBytes(): number {
    return this.#held.length
  }

  drop(): void {
    this.#held = nothing
    this.#heldBytes = 0
  }

  /**
   * The unfinished block with the line ends that it lacks, undefined if none is held. A lone CR at its end needs two, since
   * an LF behind it belongs to it.
   */
  takeRest(): Buffer | undefined {
    if (this.#heldBytes === 0) return undefined
    const lacking = this.#held[this.#heldBytes - 1] === lineFeed ? 1 : closingBytes
    const size = this.#heldBytes + lacking
    this.#held.fill(lineFeed, this.#heldBytes, size)
    this.#heldBytes = 0
    return this.#held.subarray(0, size)
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

  #findEnds(chunk: Buffer): number[] {
    const ends: number[] = []
    if (chunk.length === 0) return ends
    const findLineEnd = findLineEnds(chunk)
    let position = 0
    // This LF belongs to the CR of the chunk before, which has ended the line, and the block too if nothing is held.
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

  /** Doubles the buffer as it grows, so that an event in many small pieces is not copied for each piece. */
  #hold(bytes: Buffer): void {
    const size = this.#heldBytes + bytes.length
    if (size + closingBytes > this.#held.length) {
      const wider = Buffer.allocUnsafe(Math.max(size + closingBytes, this.#held.length * 2))
      this.#held.copy(wider, 0, 0, this.#heldBytes)
      this.#held = wider
    }
    bytes.copy(this.#held, this.#heldBytes)
    this.#heldBytes = size
  }
}
