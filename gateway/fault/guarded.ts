/** The kinds of places that call back: a label of the metric. */
export type FaultPlace = 'listener' | 'client' | 'upstream' | 'timer' | 'directory' | 'issuer' | 'process'

export type HearFault = (place: FaultPlace, error: unknown) => void

const hearers = new Set<HearFault>()

/** Tells every fault of this process from now on; gives what ends that. */
export function hearFaults(hear: HearFault): () => void {
  hearers.add(hear)
  return () => void hearers.delete(hear)
}

/** Tells of what was thrown. Where nothing listens, as in a command, it goes on as an uncaught exception. */
export function reportFault(place: FaultPlace, error: unknown): void {
  if (hearers.size === 0) {
    queueMicrotask(() => {
      throw error
    })
    return
  }
  for (const hear of hearers) hear(place, error)
}

/**
 * A callback for a socket, a timer or an emitter, above which there is nothing but the event loop: what is thrown out of
 * it, or a promise that it returns, would end the process. `onFault` ends the one connection or piece of work instead.
 */
export const guarded =
  <First = void, Second = void>(
    place: FaultPlace,
    work: (first: First, second: Second) => unknown,
    onFault?: (first: First) => void,
  ): ((first: First, second?: Second) => void) =>
  (first, second) => {
    try {
      // Whoever calls back with one argument has work that takes one.
      const result = work(first, second as Second)
      if (result instanceof Promise) result.catch((error: unknown) => fail(place, error, first, onFault))
    } catch (error) {
      fail(place, error, first, onFault)
    }
  }

function fail<First>(
  place: FaultPlace,
  error: unknown,
  first: First,
  onFault: ((first: First) => void) | undefined,
): void {
  reportFault(place, error)
  try {
    onFault?.(first)
  } catch (another) {
    reportFault(place, another)
  }
}
