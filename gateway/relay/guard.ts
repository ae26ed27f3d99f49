import type { ResponseSink, UpstreamError } from '../engine/engine.ts'

/** A sink in the guise of another, of which no callback throws: whoever calls knows nothing of this answer. */
export class GuardedSink implements ResponseSink {
  readonly #sink: ResponseSink
  readonly #onFault: (error: unknown) => void

  constructor(sink: ResponseSink, onFault: (error: unknown) => void) {
    this.#sink = sink
    this.#onFault = onFault
  }

  data(chunk: Buffer): boolean {
    try {
      return this.#sink.data(chunk)
    } catch (error) {
      this.#onFault(error)
      return false
    }
  }

  end(): void {
    try {
      this.#sink.end()
    } catch (error) {
      this.#onFault(error)
    }
  }

  fail(error: UpstreamError): void {
    try {
      this.#sink.fail(error)
    } catch (fault) {
      this.#onFault(fault)
    }
  }
}
