import { setTimeout as sleep } from 'node:timers/promises'
import type { ChangeHandlers, ChangeSource } from './change.ts'

/** A connection that listens. */
export type ListeningConnection = Readonly<{
  /** A round trip; what happened before it has been heard when it resolves. */
  probe: () => Promise<void>
  /** Lets go at once, whatever state it is in. */
  close: () => void
}>

/** What a link tells after it was made. */
export type LinkEvents = Readonly<{ onBroken: (error: unknown) => void }>

export type KeepOptions = Readonly<{
  handlers: Pick<ChangeHandlers, 'onConnected' | 'onSynced' | 'onLost'>
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
export function maintainConnection(
  connect: (events: LinkEvents) => Promise<ListeningConnection>,
  { handlers, monotonicMs }: KeepOptions,
): Pick<ChangeSource, 'isUp' | 'stop'> {
  const stopping = new AbortController()
  let isUp = false
  let isLossTold = false

  /** From one connection to its end, which it rejects with. */
  const live = async (): Promise<never> => {
    const life = new AbortController()
    const { signal } = life
    const end = (): void => life.abort(stopping.signal.reason)
    stopping.signal.addEventListener('abort', end)
    const connecting = connect({ onBroken: (error) => life.abort(error) })
    try {
      const link = await abandonOn(stopping.signal, connecting)
      // What was held from before may have changed while nobody listened.
      handlers.onConnected()
      return await keepProving(link, life, monotonicMs, (askedAtMs) => {
        handlers.onSynced(askedAtMs)
        isUp = true
        isLossTold = false
      })
    } catch (error) {
      // What broke the link tells more than what failed for it.
      throw signal.aborted ? signal.reason : error
    } finally {
      isUp = false
      stopping.signal.removeEventListener('abort', end)
      // It may be made only after we stopped waiting for it.
      connecting.then(
        (link) => link.close(),
        () => undefined,
      )
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

/** Proves a link again and again, and rejects with the end of it. */
async function keepProving(
  link: ListeningConnection,
  life: AbortController,
  monotonicMs: () => number,
  onSynced: (askedAtMs: number) => void,
): Promise<never> {
  for (;;) {
    const askedAtMs = monotonicMs()
    await prove(link, life)
    onSynced(askedAtMs)
    await sleep(probeIntervalMs, undefined, { signal: life.signal, ref: false })
  }
}

/** A round trip; one that takes too long ends the life of its link. */
async function prove(link: ListeningConnection, life: AbortController): Promise<void> {
  const timer = setTimeout(() => life.abort(new Error('no answer in time')), answerTimeoutMs)
  timer.unref()
  try {
    await abandonOn(life.signal, link.probe())
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Settles with the work, or rejects when the signal comes first. `AbortSignal.any` would be shorter; a signal that
 * lives as long as we do never lets go of those made from it (Node 20).
 */
const abandonOn = <Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> =>
  new Promise((resolve, reject) => {
    const abandon = (): void => reject(signal.reason)
    const settle = (): void => signal.removeEventListener('abort', abandon)
    signal.addEventListener('abort', abandon)
    work.then(resolve, reject).finally(settle)
    if (signal.aborted) abandon()
  })
