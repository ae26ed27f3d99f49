import type { Sink } from '../../gateway/observe/audit/sink.ts'

/** A place for lines that takes of each write what the test says. */
export type FakePlace = Sink &
  Readonly<{
    /** All that was taken, as text. */
    taken: () => string
    /** The size of each write that was tried. */
    tried: () => readonly number[]
    isClosed: () => boolean
    /** Answers every write from now on: a number of bytes at most, an error's code, or a promise of one of them. */
    answer: (answer: FakeAnswer) => void
    /** The file is another one from the next look on. */
    move: () => void
  }>

type FakeAnswer = () => number | string | Promise<number | string>

export const takeAll = (): number => Number.POSITIVE_INFINITY

export function createFakePlace(writeLimitBytes = 4_096): FakePlace {
  let taken = ''
  const tried: number[] = []
  let answer: FakeAnswer = takeAll
  let isMoved = false
  let isClosed = false
  return {
    writeLimitBytes,
    mayBlock: false,
    write: async (bytes, offset) => {
      tried.push(bytes.length - offset)
      const said = await answer()
      if (typeof said === 'string') throw Object.assign(new Error(said), { code: said })
      const piece = bytes.subarray(offset, offset + said)
      taken += piece.toString('latin1')
      return piece.length
    },
    follow: async () => {
      const wasMoved = isMoved
      isMoved = false
      return wasMoved
    },
    writeNow: (bytes) => {
      taken += bytes.toString('latin1')
    },
    close: () => {
      isClosed = true
    },
    taken: () => taken,
    tried: () => tried,
    isClosed: () => isClosed,
    answer: (next) => {
      answer = next
    },
    move: () => {
      isMoved = true
    },
  }
}
