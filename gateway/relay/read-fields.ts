import { findLineEnds, lineFeed } from './line-ends.ts'

/** A block of an event stream (WHATWG HTML 9.2.6). A block without `data` is not an event. */
export type EventFields = Readonly<{
  name: string | undefined
  data: Buffer | undefined
  hasId: boolean
}>

const names = { event: Buffer.from('event'), data: Buffer.from('data'), id: Buffer.from('id') }
const colon = 0x3a
const space = 0x20
const nameLimitBytes = 64

export function readFields(block: Buffer): EventFields {
  const findLineEnd = findLineEnds(block)
  let name: string | undefined
  let hasId = false
  let data: Buffer | undefined
  let joined: JoinedLines | undefined
  let start = 0
  for (let end = findLineEnd(0); end >= 0; end = findLineEnd(start)) {
    const value = (field: Buffer): number => findValue(block, start, end, field)
    const dataStart = value(names.data)
    if (dataStart >= 0) {
      const line = block.subarray(dataStart, end)
      if (data) {
        joined ??= new JoinedLines(data, block.length)
        joined.add(line)
      } else {
        data = line
      }
    } else {
      const nameStart = value(names.event)
      if (nameStart >= 0) name = block.toString('latin1', nameStart, Math.min(end, nameStart + nameLimitBytes))
      else if (value(names.id) >= 0) hasId = true
    }
    // The LF of a CR LF then reads as an empty line, which changes nothing here.
    start = end + 1
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

  add(line: Buffer): void {
    this.#bytes[this.#length] = lineFeed
    this.#length += 1 + line.copy(this.#bytes, this.#length + 1)
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }
}
