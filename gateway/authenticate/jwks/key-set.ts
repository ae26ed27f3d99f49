import { errors } from 'jose'
import { GatewayError } from '../../errors/gateway-error.ts'
import type { Clock } from '../clock.ts'
import type { FindKey } from '../signature.ts'
import { type ChosenKeys, createHeldKeys } from './key-cache.ts'
import { createRefresher, type KeyEvent, type LoadKeys } from './refresh.ts'
import { createKeyMemory, type KeyStore } from './store.ts'

/** One issuer's keys, as last fetched. */
export type KeySet = Readonly<{
  findKey: FindKey
  /** What was chosen of these keys; others whenever the usable keys are, undefined while there are none, or they are too old. */
  chosen: () => ChosenKeys | undefined
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
const patienceMs = 800

/** Keeps the last good key set; an unknown key id asks the issuer, a known one never waits. */
export function createKeySet(load: LoadKeys, options: KeySetOptions): KeySet {
  const { issuer, refreshMs, maxStaleMs, clock, store, onEvent, signal } = options
  const held = createHeldKeys(maxStaleMs, clock.monotonicMs)
  const news = createNotifier(clock.after)
  const refresher = createRefresher(load, {
    held,
    memory: createKeyMemory(issuer, store, maxStaleMs, clock),
    // Keys that outlive no pause between two fetches would die while their issuer is well.
    refreshMs: Math.min(refreshMs, maxStaleMs / 2),
    clock,
    onEvent,
    onEnd: news.tell,
    signal,
  })
  const findKey: FindKey = async (header, token) => {
    const untilMs = clock.monotonicMs() + patienceMs
    for (;;) {
      const keys = held.find()
      const key = keys && (await keys(header, token).catch(dropNoMatch))
      if (key) return key
      if (held.find() !== keys) continue
      refresher.askForUnknownKey()
      if (!refresher.isUnderWay()) {
        // An unknown key while the issuer cannot be asked proves nothing against the token.
        throw keys && refresher.isIssuerUp() ? new errors.JWKSNoMatchingKey() : new GatewayError('issuer_unavailable')
      }
      if (!(await news.next(untilMs - clock.monotonicMs()))) throw new GatewayError('issuer_unavailable')
    }
  }
  return { findKey, chosen: held.chosen, refresh: refresher.refresh, ageMs: held.ageMs, version: held.version }
}

function dropNoMatch(error: unknown): undefined {
  if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
}

/** Wakes everybody who waits for a change, whatever it is. */
type Notifier = Readonly<{
  tell: () => void
  /** Resolves to whether there was news within that time. */
  next: (withinMs: number) => Promise<boolean>
}>

/** Who gives up is forgotten at once: a promise shared by all would remember them for as long as it hangs. */
function createNotifier(after: Clock['after']): Notifier {
  const waiting = new Set<() => void>()
  return {
    tell: () => {
      for (const wake of waiting) wake()
    },
    next: (withinMs) =>
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
