// Exceptions in callbacks: each ends its own connection or task, and not the process.
export type FaultComponent = 'listener' | 'client' | 'upstream' | 'timer' | 'directory' | 'issuer' | 'process'

export type HearFault = (component: FaultComponent, error: unknown) => void

const hearers = new Set<HearFault>()

export function hearFaults(hear: HearFault): () => void {
  hearers.add(hear)
  return () => void hearers.delete(hear)
}

/** Without a listener, as in a command, the error becomes an uncaught exception. */
export function reportFault(component: FaultComponent, error: unknown): void {
  if (hearers.size === 0) {
    queueMicrotask(() => {
      throw error
    })
    return
  }
  for (const hear of hearers) hear(component, error)
}

/**
 * Wraps a callback of a socket, a timer or an emitter. Only the event loop is above it, so an exception or a rejection
 * would end the process. `onFault` ends the one connection or piece of work instead.
 */
export const guarded =
  <First = void, Second = void>(
    component: FaultComponent,
    work: (first: First, second: Second) => unknown,
    onFault?: (first: First) => void,
  ): ((first: First, second?: Second) => void) =>
  (first, second) => {
    try {
      // a caller with one argument has work that takes one
      const result = work(first, second as Second)
      if (result instanceof Promise) result.catch((error: unknown) => fail(component, error, first, onFault))
    } catch (error) {
      fail(component, error, first, onFault)
    }
  }

function fail<First>(
  component: FaultComponent,
  error: unknown,
  first: First,
  onFault: ((first: First) => void) | undefined,
): void {
  reportFault(component, error)
  try {
    onFault?.(first)
  } catch (another) {
    reportFault(component, another)
  }
}
