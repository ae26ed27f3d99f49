import { keepAlive } from '../errors/render-stream.ts'
import type { ResponseSink } from '../http/engine.ts'
import type { Exchange, ResponseWriter } from '../http/exchange.ts'
import { carriageReturn, lineFeed } from './line-ends.ts'
import { withoutByteOrderMark } from './stream-state.ts'
import type { Timer } from './timer.ts'

const tailBytes = 4

/**
 * Passes an event stream of an application on, byte for byte and at once. During a silence between two events its client
 * gets comments. Only the upstream knows whether the stream was complete, so an early end stays recognizable.
 */
export class PlainEventStream implements ResponseSink {
  readonly #writer: ResponseWriter
  readonly #exchange: Exchange
  readonly #timer: Timer
  #tail: readonly number[] = []
  #isBlocked = false
  #hasCommented = false

  constructor(
    writer: ResponseWriter,
    exchange: Exchange,
    resume: () => void,
    keepAliveTimer: (onTime: () => void) => Timer,
  ) {
    this.#writer = writer
    this.#exchange = exchange
    this.#timer = keepAliveTimer(() => this.#onQuiet())
    writer.onDrain(() => {
      this.#isBlocked = false
      resume()
    })
    exchange.onEnd(() => this.#timer.stop())
  }

  data(chunk: Buffer): boolean {
    const isFirst = this.#tail.length === 0
    const bytes = isFirst && this.#hasCommented ? withoutByteOrderMark(chunk) : chunk
    this.#tail = [...this.#tail, ...chunk.subarray(-tailBytes)].slice(-tailBytes)
    this.#timer.restart()
    this.#isBlocked = !this.#writer.write(bytes)
    return !this.#isBlocked
  }

  end(): void {
    this.#timer.stop()
    this.#writer.end()
  }

  fail(): void {
    this.#timer.stop()
    this.#exchange.destroy()
  }

  #onQuiet(): void {
    if (!this.#isBlocked && isBetweenEvents(this.#tail)) {
      this.#hasCommented = true
      this.#writer.write(Buffer.from(keepAlive))
    }
    this.#timer.restart()
  }
}

/** Before the first byte, or after a blank line. A CR and an LF are one line end. */
function isBetweenEvents(tail: readonly number[]): boolean {
  if (tail.length === 0) return true
  const isPair = tail.at(-1) === lineFeed && tail.at(-2) === carriageReturn
  return isLineEnd(tail.at(-1)) && isLineEnd(tail.at(isPair ? -3 : -2))
}

const isLineEnd = (byte: number | undefined): boolean => byte === lineFeed || byte === carriageReturn
