const tab = 0x09
const lineFeed = 0x0a
const carriageReturn = 0x0d
const space = 0x20
const colon = 0x3a

const nothing: Buffer = Buffer.alloc(0)

/** Blanks in a row that are taken out. A longer run is left to the parser, which refuses it or keeps it in its value. */
const longestRun = 256

/** Blanks of a head that are taken out: they count in no limit of the parser. */
const mostBlanks = 4 * 1024

type Place = 'first-line' | 'line' | 'name' | 'blanks-behind-name' | 'value' | 'blanks-in-value' | 'last-line' | 'body'

const isBlank = (byte: number): boolean => byte === space || byte === tab

const isInRun = (place: Place): boolean => place === 'blanks-behind-name' || place === 'blanks-in-value'

/** Most bytes of a head are of its words, and change nothing. */
const isInWord = (place: Place, byte: number): boolean =>
  byte > space && byte !== colon && (place === 'value' || place === 'name' || place === 'first-line')

/**
 * Takes blanks out of an answer's head, before its parser reads it, wherever its bytes are cut. Those before a colon go
 * (RFC 9112 5.1), and those behind a value, since llhttp takes a tab there for a part of it. The parser judges the rest, so
 * this reader passes on what it does not understand.
 */
export class HeadMender {
  #place: Place = 'first-line'
  /** Blanks whose meaning the next byte decides. */
  #run = nothing
  #blanks = 0

  next(): void {
    this.#place = 'first-line'
    this.#run = nothing
    this.#blanks = 0
  }

  mend(bytes: Buffer): Buffer {
    if (this.#place === 'body') return bytes
    let kept: Buffer[] | undefined
    let from = 0
    // A run that an earlier read began counts as one that begins before this one.
    let runFrom = 0
    for (let at = 0; at < bytes.length && this.#place !== 'body'; at += 1) {
      const byte = bytes[at] ?? 0
      const before = this.#place
      if (isInWord(before, byte)) continue
      this.#place = placeBehind(before, byte)
      const isRun = isInRun(this.#place)
      if (isRun && !isInRun(before)) runFrom = at
      if (isRun || !isInRun(before)) continue
      const run = this.#run.length + at - runFrom
      const endsRun = byte === (before === 'blanks-behind-name' ? colon : carriageReturn)
      if (endsRun && run <= longestRun && this.#blanks + run <= mostBlanks) {
        this.#blanks += run
        kept ??= []
        kept.push(bytes.subarray(from, runFrom))
        from = at
      } else if (this.#run.length > 0) {
        kept ??= []
        kept.push(this.#run)
      }
      this.#run = nothing
    }
    const rest = this.#holdRun(bytes, from, runFrom)
    return kept ? Buffer.concat([...kept, rest]) : rest
  }

  /** Keeps a run at the end of a read for the next one, and returns what stands before it. */
  #holdRun(bytes: Buffer, from: number, runFrom: number): Buffer {
    if (!isInRun(this.#place)) return bytes.subarray(from)
    const run = Buffer.concat([this.#run, bytes.subarray(runFrom)])
    if (run.length <= longestRun) {
      this.#run = run
      return bytes.subarray(from, runFrom)
    }
    // Too many: the parser gets them now, and what comes of this head is not mended.
    this.#run = nothing
    this.#blanks = mostBlanks
    return Buffer.concat([bytes.subarray(from, runFrom), run])
  }
}

function placeBehind(place: Place, byte: number): Place {
  if (byte === lineFeed) return place === 'last-line' ? 'body' : 'line'
  switch (place) {
    case 'line':
      if (byte === carriageReturn) return 'last-line'
      // A folded line goes on with a value, and the parser refuses it.
      return isBlank(byte) || byte === colon ? 'value' : 'name'
    case 'name':
    case 'blanks-behind-name':
      if (byte === colon) return 'value'
      return isBlank(byte) ? 'blanks-behind-name' : 'name'
    case 'value':
    case 'blanks-in-value':
      return isBlank(byte) ? 'blanks-in-value' : 'value'
    default:
      return place
  }
}
