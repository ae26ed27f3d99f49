import { guarded } from '../../fault/guarded.ts'

/** A place for text of so many whole lines. */
export type LineSink = Readonly<{ write: (text: string, lines: number) => unknown }>

/** Lines on their way to a sink, several in one write: a write costs as much as it takes to compose twenty lines. */
export type LineBuffer = Readonly<{ write: (line: string) => void; flush: () => void }>

/**
 * Holds lines back for `delayMs` at most, and no more than `limit` characters of them: lines of other processes may
 * stand between two writes to the same pipe, and never within one.
 */
export function bufferLines(sink: LineSink, limit: number, delayMs: number): LineBuffer {
  let held = ''
  let lines = 0
  let timer: NodeJS.Timeout | undefined
  const flush = (): void => {
    clearTimeout(timer)
    timer = undefined
    const [text, count] = [held, lines]
    held = ''
    lines = 0
    if (count > 0) sink.write(text, count)
  }
  return {
    write: (line) => {
      if (held.length + line.length > limit) flush()
      held += line
      lines++
      timer ??= setTimeout(guarded('process', flush), delayMs)
    },
    flush,
  }
}
