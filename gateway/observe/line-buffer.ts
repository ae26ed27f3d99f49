/** Where lines go: the system's, in the end. */
export type LineSink = Readonly<{ write: (text: string) => unknown }>

/** Lines on their way to a sink, several in one write: a write costs as much as it takes to compose twenty lines. */
export type LineBuffer = Readonly<{ write: (line: string) => void; flush: () => void }>

/**
 * Holds lines, of ASCII alone, back for `delayMs` at most, and no more than `limit` bytes of them: what others write to
 * the same pipe may stand between two writes, and never within one.
 */
export function bufferLines(sink: LineSink, limit: number, delayMs: number): LineBuffer {
  let held = ''
  let timer: NodeJS.Timeout | undefined
  const flush = (): void => {
    clearTimeout(timer)
    timer = undefined
    const text = held
    held = ''
    if (text !== '') sink.write(text)
  }
  return {
    write: (line) => {
      if (held.length + line.length > limit) flush()
      held += line
      timer ??= setTimeout(flush, delayMs)
    },
    flush,
  }
}
