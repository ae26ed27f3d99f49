import { guarded } from '../../base/fault/guarded.ts'

export type LineSink = Readonly<{ write: (text: string, lines: number) => unknown }>

/** Joins lines, since a write costs as much as composing twenty lines. */
export type LineBuffer = Readonly<{ write: (line: string) => void; flush: () => void }>

/**
 * Holds at most `limit` characters for at most `delayMs`. Lines of other processes may stand between two writes to a
 * pipe, but not within one.
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
