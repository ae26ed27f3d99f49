import type { ResponseSink } from '../engine/engine.ts'

/** Makes callbacks of which none throws: whoever calls them knows nothing of this answer, and could only break more. */
export type Guard = <Arguments extends readonly unknown[], Result>(
  work: (...values: Arguments) => Result,
  otherwise: Result,
) => (...values: Arguments) => Result

export const createGuard =
  (onFault: (error: unknown) => void): Guard =>
  (work, otherwise) =>
  (...values) => {
    try {
      return work(...values)
    } catch (error) {
      onFault(error)
      return otherwise
    }
  }

export const guardSink = (sink: ResponseSink, guard: Guard): ResponseSink => ({
  data: guard((chunk) => sink.data(chunk), false),
  end: guard(() => sink.end(), undefined),
  fail: guard((error) => sink.fail(error), undefined),
})
