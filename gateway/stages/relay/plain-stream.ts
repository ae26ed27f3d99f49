import { keepAlive } from '../../base/errors/render-stream.ts'
import type { ResponseSink } from '../../http/engine.ts'
import type { Exchange, ResponseWriter } from '../../http/exchange.ts'
import { carriageReturn, lineFeed } from './line-ends.ts'
import { withoutByteOrderMark } from './stream-state.ts'
import type { StartTimer, Timer } from './timer.ts'

/** The second of two line ends may be CR LF, so that three bytes tell a blank line. */
const tailBytes = 3
const tailMask = 0xff_ff_ff

type KeepAlive = Readonly<{ startTimer: StartTimer; keepAliveMs: number }>

/**
 * Passes an event stream of an application on, byte for byte and at once. During a silence between two events its client
 * gets comments. Only the upstream knows whether the stream was complete, so an early end stays recognizable.
 */
export class PlainEventStream implements ResponseSink {
  readonly #writer: ResponseWriter
  readonly #exchange: Exchange
  readonly #timer: Timer
  #tail = 0
  #hasPassed = false
  #isBlocked = false
  #hasCommented = false

  constructor(writer: ResponseWriter, exchange: Exchange, resume: () => void, { startTimer, keepAliveMs }: KeepAlive) {
    this.#writer = writer
    this.#exchange = exchange
    this.#timer = startTimer(keepAliveMs, PlainEventStream.#onQuiet, this)
    writer.onDrain(() => {
      this.#isBlocked = false
      resume()
    })
    exchange.onEnd(PlainEventStream.#onEnd, this)
  }

  data(chunk: Buffer): boolean {
    const bytes = !this.#hasPassed && this.#hasCommented ? withoutByteOrderMark(chunk) : chunk
    for (let at = Math.max(0, chunk.length - tailBytes); at < chunk.length; at += 1) {
      this.#tail = ((this.#tail << 8) | (chunk[at] ?? 0)) & tailMask
      this.#hasPassed = true
    }
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

  static #onQuiet(stream: PlainEventStream): void {
    if (!stream.#isBlocked && (!stream.#hasPassed || isBetweenEvents(stream.#tail))) {
      stream.#hasCommented = true
      stream.#writer.write(Buffer.from(keepAlive))
    }
    stream.#timer.restart()
  }

  static #onEnd(_: boolean, stream: PlainEventStream): void {
    stream.#timer.stop()
  }
}

/** After a blank line. A CR and an LF are one line end. */
function isBetweenEvents(tail: number): boolean {
  const [last, before, first] = [tail & 0xff, (tail >> 8) & 0xff, tail >> 16]
  const isPair = last === lineFeed && before === carriageReturn
  return isLineEnd(last) && isLineEnd(isPair ? first : before)
}

const isLineEnd = (byte: number): boolean => byte === lineFeed || byte === carriageReturn
