import { setTimeout as sleep } from 'node:timers/promises'
import type { ChangeHandlers, ChangeSource } from './change.ts'

/** A connection that listens. */
export type Link = Readonly<{
  /** A round trip; what happened before it has been heard when it resolves. */
  probe: () => Promise<void>
  /** Lets go at once, whatever state it is in. */
  close: () => void
}>

/** What a link tells after it was made. */
export type LinkEvents = Readonly<{ onBroken: (error: unknown) => void }>

export type KeepOptions = Readonly<{
  handlers: Pick<ChangeHandlers, 'onConnected' | 'onProof' | 'onLost'>
  monotonicMs: () => number
}>

const probeIntervalMs = 250

/** A link that does not answer for this long is given up: another one may find the way. */
export const answerTimeoutMs = 1_000

const firstRetryMs = 50
const longestRetryMs = 1_000

/** A connection that lasted this long was a good one: the next loss is tried again at once. */
const steadyMs = 5_000

/** Keeps one listening connection, proves it again and again, and makes another when it is lost. */
export function keepConnected(
  connect: (events: LinkEvents) => Promise<Link>,
  { handlers, monotonicMs }: KeepOptions,
): Pick<ChangeSource, 'isUp' | 'stop'> {
  const stopping = new AbortController()
  let isUp = false
  let isLossTold = false

  /** From one connection to its end, which it rejects with. */
  const live = async (): Promise<never> => {
    const breaking = new AbortController()
    const life = AbortSignal.any([stopping.signal, breaking.signal])
    const link = await connect({ onBroken: (error) => breaking.abort(error) })
    try {
      // What was held from before may have changed while nobody listened.
      handlers.onConnected()
      for (;;) {
        const askedAtMs = monotonicMs()
        await abandonOn(AbortSignal.any([life, AbortSignal.timeout(answerTimeoutMs)]), link.probe())
        handlers.onProof(askedAtMs)
        isUp = true
        isLossTold = false
        await sleep(probeIntervalMs, undefined, { signal: life, ref: false })
      }
    } catch (error) {
      // What broke it says more than that a wait was cut short.
      throw life.aborted ? life.reason : error
    } finally {
      isUp = false
      link.close()
    }
  }
  const keep = async (): Promise<void> => {
    for (let failures = 0; !stopping.signal.aborted; failures += 1) {
      const startedMs = monotonicMs()
      const cause = await live().catch((error: unknown) => error)
      if (stopping.signal.aborted) return
      if (!isLossTold) handlers.onLost(cause)
      isLossTold = true
      if (monotonicMs() - startedMs > steadyMs) failures = 0
      const delayMs = Math.min(longestRetryMs, firstRetryMs * 2 ** failures)
      await sleep(delayMs, undefined, { signal: stopping.signal, ref: false }).catch(() => undefined)
    }
  }
  const ended = keep()
  return {
    isUp: () => isUp,
    stop: () => {
      stopping.abort()
      return ended
    },
  }
}

/** Settles with the work, or rejects when the signal comes first. */
const abandonOn = (signal: AbortSignal, work: Promise<void>): Promise<void> =>
  new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    work.then(resolve, reject)
    if (signal.aborted) reject(signal.reason)
  })
