import { type FindLineEnd, findLineEnds, lineFeed } from './line-ends.ts'

/** A block of an event stream (WHATWG HTML 9.2.6). A block without `data` is not an event. */
export type EventFields = Readonly<{
  name: string | undefined
  data: Buffer | undefined
  hasId: boolean
}>

const names = { event: Buffer.from('event'), data: Buffer.from('data'), id: Buffer.from('id') }
const colon = 0x3a
const space = 0x20

/** Names of OpenAI's events have under 50 characters; a longer one is unknown anyway. */
const nameLimitBytes = 64

/** Below it a loop costs less than the call of `copy`. */
const shortBytes = 16
const noData: Buffer = Buffer.alloc(0)

/**
 * Reads the block from `start` to `end`. Its finder of line ends may serve all blocks of a chunk. To begin a search for
 * each short block costs more than to read it.
 */
export function readFields(
  bytes: Buffer,
  start = 0,
  end = bytes.length,
  findLineEnd: FindLineEnd = findLineEnds(bytes),
): EventFields {
  let name: string | undefined
  let hasId = false
  let data: Buffer | undefined
  let joined: JoinedLines | undefined
  let lineStart = start
  for (let lineEnd = findLineEnd(start); lineEnd >= 0 && lineEnd < end; lineEnd = findLineEnd(lineStart)) {
    // The LF of a CR LF then reads as an empty line, which changes nothing here. A comment has no field either.
    if (lineEnd > lineStart && bytes[lineStart] !== colon) {
      const dataStart = findValue(bytes, lineStart, lineEnd, names.data)
      if (dataStart >= 0) {
        if (data) {
          joined ??= new JoinedLines(data, end - start)
          joined.add(bytes, dataStart, lineEnd)
        } else {
          data = dataStart === lineEnd ? noData : bytes.subarray(dataStart, lineEnd)
        }
      } else {
        const nameStart = findValue(bytes, lineStart, lineEnd, names.event)
        if (nameStart >= 0) name = bytes.toString('latin1', nameStart, Math.min(lineEnd, nameStart + nameLimitBytes))
        else if (findValue(bytes, lineStart, lineEnd, names.id) >= 0) hasId = true
      }
    }
    lineStart = lineEnd + 1
    if (lineStart >= end) break
  }
  return { name, data: joined?.bytes() ?? data, hasId }
}

function findValue(block: Buffer, start: number, end: number, field: Buffer): number {
  const after = start + field.length
  if (after > end) return -1
  for (let index = 0; index < field.length; index++) if (block[start + index] !== field[index]) return -1
  if (after === end) return end
  if (block[after] !== colon) return -1
  return block[after + 1] === space ? after + 2 : after + 1
}

/** Collects the `data` lines of a block in one buffer, since a block may have millions of them. */
class JoinedLines {
  readonly #bytes: Buffer
  #length: number

  constructor(first: Buffer, limitBytes: number) {
    this.#bytes = Buffer.allocUnsafe(limitBytes)
    this.#length = first.copy(this.#bytes)
  }

  add(bytes: Buffer, start: number, end: number): void {
    this.#bytes[this.#length] = lineFeed
    this.#length += 1
    // To call `copy` for a line of a few bytes costs more than to copy them.
    if (end - start > shortBytes) this.#length += bytes.copy(this.#bytes, this.#length, start, end)
    else for (let index = start; index < end; index += 1) this.#bytes[this.#length++] = bytes[index] ?? 0
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }
}
