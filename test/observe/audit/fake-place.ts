import type { Sink } from '../../../gateway/observe/audit/sink.ts'

/** A sink in memory. The test decides how much of each write it takes, and with which error a write fails. */
export type FakePlace = Sink &
  Readonly<{
    /** All written text. */
    taken: () => string
    /** The size of each attempted write, in bytes. */
    tried: () => readonly number[]
    isClosed: () => boolean
    /** Sets the result of every later write: the most bytes that it takes, an error's code, or a promise of either. */
    answer: (answer: FakeAnswer) => void
    /** Makes the next `follow` say that the file was replaced. */
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
