import { guarded } from '../../base/fault/guarded.ts'
import { type Batch, countLines, type Line, splitBatch, takeBatch, toBatch } from './batch.ts'
import type { Sink } from './sink.ts'

export type LineWriterOptions = Readonly<{
  place: Sink
  bufferBytes: number
  monotonicMs: () => number
  retryMs: number
  followMs: number
  onWritten: (lines: number) => void
  onLost: (lines: number) => void
  onFailing: (error: unknown) => void
  onRecovered: () => void
}>

/** A reader that lives empties a pipe of 64 KiB in this time, and each attempt costs a system call. */
const fullPipeMs = 10

/**
 * Writes whole lines in order, as many at once as the sink keeps together, one write at a time. A line without a
 * waiting caller stays until it is written, if there is room. A line with one is given up at the first failure.
 */
export class LineWriter {
  readonly #options: LineWriterOptions
  #queue: Line[] = []
  #batch: Batch | undefined
  #heldBytes = 0
  #isWriting = false
  #isFailing = false
  #restTimer: NodeJS.Timeout | undefined
  #followedAtMs: number
  #state: 'open' | 'closing' | 'closed' = 'open'
  #onIdle: (() => void) | undefined

  constructor(options: LineWriterOptions) {
    this.#options = options
    this.#followedAtMs = options.monotonicMs()
    process.once('exit', this.#writeRest)
  }

  get isFailing(): boolean {
    return this.#isFailing
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /**
   * Takes a line, or `count` of them in one text, each character a byte. Undefined if the buffer is full, or if a
   * caller would wait for a failing sink.
   */
  push(text: string, settle?: Line['settle'], count = 1): Line | undefined {
    const isHopeless = settle !== undefined && this.#restTimer !== undefined
    if (this.#state !== 'open' || isHopeless || this.#heldBytes + text.length > this.#options.bufferBytes) {
      this.#options.onLost(count)
      return undefined
    }
    const line: Line = { text, count, settle }
    this.#queue.push(line)
    this.#heldBytes += text.length
    void this.#write()
    return line
  }

  giveUp(line: Line): void {
    const index = this.#queue.indexOf(line)
    if (index < 0) return
    this.#queue.splice(index, 1)
    this.#heldBytes -= line.text.length
    this.#options.onLost(line.count)
  }

  async close(withinMs: number): Promise<void> {
    if (this.#state !== 'open') return
    this.#state = 'closing'
    this.#endRest()
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, withinMs)
      this.#onIdle = () => {
        clearTimeout(timer)
        resolve()
      }
      void this.#write()
    })
    process.off('exit', this.#writeRest)
    this.#state = 'closed'
    this.#loseAll()
    if (!this.#isWriting) this.#options.place.close()
  }

  async #write(): Promise<void> {
    if (this.#isWriting || this.#restTimer) return
    this.#isWriting = true
    try {
      for (;;) {
        this.#batch ??= takeBatch(this.#queue, this.#options.place.writeLimitBytes)
        if (!this.#batch) break
        await this.#writeBatch(this.#batch)
      }
    } catch (error) {
      this.#fail(error)
    }
    this.#isWriting = false
    if (this.#state === 'closing') this.#onIdle?.()
    else if (this.#state === 'closed') this.#options.place.close()
  }

  async #writeBatch(batch: Batch): Promise<void> {
    const { place, monotonicMs, followMs } = this.#options
    if (monotonicMs() - this.#followedAtMs >= followMs) {
      if (await place.follow()) batch.offset = 0
      this.#followedAtMs = monotonicMs()
    }
    while (batch.offset < batch.bytes.length) batch.offset += await this.#writeSome(batch)
    if (this.#state === 'closed') return
    this.#batch = undefined
    this.#noteWritten(batch.lines)
    if (!this.#isFailing) return
    this.#isFailing = false
    this.#options.onRecovered()
  }

  async #writeSome({ bytes, offset }: Batch): Promise<number> {
    try {
      return await this.#options.place.write(bytes, offset)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || this.#state === 'closed') throw error
      await new Promise((resolve) => setTimeout(resolve, fullPipeMs))
      return 0
    }
  }

  #noteWritten(lines: readonly Line[]): void {
    for (const { text, settle } of lines) {
      this.#heldBytes -= text.length
      settle?.(true)
    }
    if (lines.length > 0) this.#options.onWritten(countLines(lines))
  }

  #fail(error: unknown): void {
    if (this.#state === 'closed') return
    const isNews = !this.#isFailing
    this.#isFailing = true
    this.#followedAtMs = Number.NEGATIVE_INFINITY
    this.#giveUpWaiting()
    if (isNews) this.#options.onFailing(error)
    if (this.#state !== 'open') return
    const tryAgain = (): Promise<void> => {
      this.#endRest()
      return this.#write()
    }
    this.#restTimer = setTimeout(guarded('process', tryAgain), this.#options.retryMs)
    this.#restTimer.unref()
  }

  #endRest(): void {
    clearTimeout(this.#restTimer)
    this.#restTimer = undefined
  }

  /** Keeps lines without a waiting caller, and a half-written line, which would spoil the next one. */
  #giveUpWaiting(): void {
    const { written, unwritten, partialBytes } = splitBatch(this.#batch ?? { lines: [], offset: 0 })
    this.#noteWritten(written)
    const held = [...unwritten, ...this.#queue]
    const kept = held.filter(({ settle }, index) => settle === undefined || (index === 0 && partialBytes > 0))
    for (const { settle } of held) settle?.(false)
    this.#queue = kept.map(({ text, count }) => ({ text, count, settle: undefined }))
    this.#heldBytes = kept.reduce((sum, { text }) => sum + text.length, 0)
    this.#batch = partialBytes > 0 ? toBatch(this.#queue.splice(0, 1), partialBytes) : undefined
    if (kept.length < held.length) this.#options.onLost(countLines(held) - countLines(kept))
  }

  #loseAll(): void {
    const rest = [...(this.#batch?.lines ?? []), ...this.#queue]
    this.#batch = undefined
    this.#queue = []
    for (const { settle } of rest) settle?.(false)
    if (rest.length > 0) this.#options.onLost(countLines(rest))
  }

  readonly #writeRest = guarded('process', (): void => {
    const { place } = this.#options
    if (place.mayBlock) return
    const rest = this.#queue.map(({ text }) => text).join('')
    if (rest !== '') place.writeNow(Buffer.from(rest, 'latin1'))
  })
}
