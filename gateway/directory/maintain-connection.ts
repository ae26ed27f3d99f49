import { setTimeout as sleep } from 'node:timers/promises'
import type { ChangeHandlers, ChangeSource } from './change.ts'

export type ListeningConnection = Readonly<{
  /** A round trip. When it resolves, all changes from before it have arrived. */
  probe: () => Promise<void>
  close: () => void
}>

export type LinkEvents = Readonly<{ onBroken: (error: unknown) => void }>

export type KeepOptions = Readonly<{
  handlers: Pick<ChangeHandlers, 'onConnected' | 'onSynced' | 'onLost'>
  monotonicMs: () => number
}>

/** Three proofs within `factMs`: a late one makes no fact old. */
const probeIntervalMs = 250

/** A connection that does not respond for this long is replaced: a new one may take another way. */
export const answerTimeoutMs = 1_000

/** A dropped connection is back at once; a server that fails over takes seconds, and is not flooded meanwhile. */
const firstRetryMs = 50
const longestRetryMs = 1_000

/** A connection of this age was a good one: the next loss is retried at once. */
const steadyMs = 5_000

export function maintainConnection(
  connect: (events: LinkEvents) => Promise<ListeningConnection>,
  { handlers, monotonicMs }: KeepOptions,
): Pick<ChangeSource, 'isUp' | 'stop'> {
  const stopping = new AbortController()
  let isUp = false
  let isLossTold = false

  const live = async (): Promise<never> => {
    const life = new AbortController()
    const { signal } = life
    const end = (): void => life.abort(stopping.signal.reason)
    stopping.signal.addEventListener('abort', end)
    const connecting = connect({ onBroken: (error) => life.abort(error) })
    try {
      const link = await abandonOn(stopping.signal, connecting)
      handlers.onConnected()
      return await keepProving(link, life, monotonicMs, (askedAtMs) => {
        handlers.onSynced(askedAtMs)
        isUp = true
        isLossTold = false
      })
    } catch (error) {
      throw signal.aborted ? signal.reason : error
    } finally {
      isUp = false
      stopping.signal.removeEventListener('abort', end)
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
 * Settles with the work, or rejects as soon as the signal fires. Not `AbortSignal.any`: in Node 20 a long-lived signal
 * never releases the signals made from it.
 */
const abandonOn = <Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> =>
  new Promise((resolve, reject) => {
    const abandon = (): void => reject(signal.reason)
    const settle = (): void => signal.removeEventListener('abort', abandon)
    signal.addEventListener('abort', abandon)
    work.then(resolve, reject).finally(settle)
    if (signal.aborted) abandon()
  })
