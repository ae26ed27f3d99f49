/** One line, or `count` lines that stay together. `settle` is called once, when the outcome is known. */
export type Line = Readonly<{ text: string; count: number; settle: ((isWritten: boolean) => void) | undefined }>

export type Batch = { readonly lines: readonly Line[]; readonly bytes: Buffer; offset: number }

export function takeBatch(queue: Line[], limitBytes: number): Batch | undefined {
  let count = 0
  let size = 0
  for (const { text } of queue) {
    size += text.length
    if (count > 0 && size > limitBytes) break
    count++
  }
  return count === 0 ? undefined : toBatch(queue.splice(0, count))
}

export const toBatch = (lines: readonly Line[], offset = 0): Batch => ({
  lines,
  bytes: Buffer.from(lines.map(({ text }) => text).join(''), 'latin1'),
  offset,
})

export function splitBatch({ lines, offset }: Pick<Batch, 'lines' | 'offset'>): SplitBatch {
  let partialBytes = offset
  let count = 0
  for (const { text } of lines) {
    if (partialBytes < text.length) break
    partialBytes -= text.length
    count++
  }
  return { written: lines.slice(0, count), unwritten: lines.slice(count), partialBytes }
}

export const countLines = (lines: readonly Line[]): number => lines.reduce((sum, { count }) => sum + count, 0)

export type SplitBatch = Readonly<{ written: readonly Line[]; unwritten: readonly Line[]; partialBytes: number }>
