import { errors } from 'jose'
import { GatewayError } from '../../errors/gateway-error.ts'
import type { Clock } from '../clock.ts'
import type { FindKey } from '../signature.ts'
import { createKeyCache, type KeysByHeader } from './key-cache.ts'
import { createRefresher, type KeyEvent, type LoadKeys } from './refresh.ts'
import { createStoredKeys, type KeyStore } from './store.ts'

/** One issuer's keys, as last fetched. */
export type KeySet = Readonly<{
  findKey: FindKey
  /** What was chosen of these keys; others whenever the usable keys are, undefined while there are none, or they are too old. */
  keysByHeader: () => KeysByHeader | undefined
  /** Fetches now and from then on in the background; concurrent calls share one fetch. Resolves to whether it worked. */
  refresh: () => Promise<boolean>
  /** Milliseconds since the last good fetch, this process' or a stored one; undefined before the first. */
  ageMs: () => number | undefined
  /** Another number whenever the usable keys are others; undefined while none may be used, or they are too old. */
  version: () => number | undefined
}>

/** Whose keys, how long they live, and everything from outside that they live by. */
export type KeySetOptions = Readonly<{
  issuer: string
  /** How often a key set is fetched while its issuer is up. */
  refreshMs: number
  /** How long keys serve after the last good fetch (SPEC section 2.4). */
  maxStaleMs: number
  clock: Clock
  store: KeyStore
  onEvent: (event: KeyEvent) => void
  /** Ends fetches and timers; keys in hand go on. */
  signal: AbortSignal
}>

/** How long a request waits for keys under way: it is to be answered within a second, however long the issuer hangs. */
const keyWaitMs = 800

/** Keeps the last good key set; an unknown key id asks the issuer, a known one never waits. */
export function createKeySet(load: LoadKeys, options: KeySetOptions): KeySet {
  const { issuer, refreshMs, maxStaleMs, clock, store, onEvent, signal } = options
  const cache = createKeyCache(maxStaleMs, clock.monotonicMs)
  const notifier = createNotifier(clock.after)
  const refresher = createRefresher(load, {
    cache,
    stored: createStoredKeys(issuer, store, maxStaleMs, clock),
    // Keys that outlive no pause between two fetches would die while their issuer is well.
    refreshMs: Math.min(refreshMs, maxStaleMs / 2),
    clock,
    onEvent,
    onEnd: notifier.notify,
    signal,
  })
  const findKey: FindKey = async (header, token) => {
    const untilMs = clock.monotonicMs() + keyWaitMs
    for (;;) {
      const keys = cache.find()
      const key = keys && (await keys(header, token).catch(dropNoMatch))
      if (key) return key
      if (cache.find() !== keys) continue
      refresher.askForUnknownKey()
      if (!refresher.isUnderWay()) {
        // An unknown key while the issuer cannot be asked proves nothing against the token.
        throw keys && refresher.isIssuerUp() ? new errors.JWKSNoMatchingKey() : new GatewayError('issuer_unavailable')
      }
      if (!(await notifier.wait(untilMs - clock.monotonicMs()))) throw new GatewayError('issuer_unavailable')
    }
  }
  return {
    findKey,
    keysByHeader: cache.keysByHeader,
    refresh: refresher.refresh,
    ageMs: cache.ageMs,
    version: cache.version,
  }
}

function dropNoMatch(error: unknown): undefined {
  if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
}

/** Wakes all that wait for a change, whatever it is. */
type Notifier = Readonly<{
  notify: () => void
  /** Resolves to whether there was news within that time. */
  wait: (withinMs: number) => Promise<boolean>
}>

/**
 * A waiter that times out is removed at once. One promise shared by all would keep timed-out waiters in memory until it
 * settles.
 */
function createNotifier(after: Clock['after']): Notifier {
  const waiting = new Set<() => void>()
  return {
    notify: () => {
      for (const wake of waiting) wake()
    },
    wait: (withinMs) =>
      new Promise((resolve) => {
        const end = (isNews: boolean): void => {
          callOff()
          waiting.delete(wake)
          resolve(isNews)
        }
        const wake = (): void => end(true)
        const callOff = after(Math.max(0, withinMs), () => end(false))
        waiting.add(wake)
      }),
  }
}
