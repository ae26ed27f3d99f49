import { errors, type FlattenedJWSInput, type JWTHeaderParameters } from 'jose'
import { GatewayError } from '../../../base/errors/gateway-error.ts'
import type { Clock } from '../clock.ts'
import { type ChosenKey, chooseKey, type FindKey, isSameKey } from '../signature.ts'
import { createKeyCache, type KeysByHeader } from './key-cache.ts'
import { createRefresher, type KeyEvent, type LoadKeys } from './refresh.ts'
import { createStoredKeys, type KeyStore } from './store.ts'
import { createUnknownKeyBudget } from './unknown-key-budget.ts'

/** Takes the address that sent the token, unless the gateway asks for itself. */
export type FindKeyFor = (
  header: JWTHeaderParameters,
  token: FlattenedJWSInput,
  clientAddress?: string,
) => ReturnType<FindKey>

export type KeySet = Readonly<{
  findKey: FindKeyFor
  /** Notes that this address has sent a token that the issuer signed and that is in force. */
  noteProven: (clientAddress: string | undefined, expiresAtSeconds?: number) => void
  keysByHeader: () => KeysByHeader | undefined
  refresh: () => Promise<boolean>
  ageMs: () => number | undefined
  version: () => number | undefined
  /** Whether the set in force still has the key that verified a token with this header; undefined without a set. */
  lists: (headerText: string, key: ChosenKey) => Promise<boolean | undefined>
}>

export type KeySetOptions = Readonly<{
  issuer: string
  refreshMs: number
  maxStaleMs: number
  clock: Clock
  store: KeyStore
  onEvent: (event: KeyEvent) => void
  signal: AbortSignal
}>

/** Longest wait of a request for a fetch: the client gets its response within a second even if the issuer hangs. */
const keyWaitMs = 800

export function createKeySet(load: LoadKeys, options: KeySetOptions): KeySet {
  const { issuer, refreshMs, maxStaleMs, clock, store, onEvent, signal } = options
  const cache = createKeyCache(maxStaleMs, clock.monotonicMs)
  const notifier = createNotifier(clock.after)
  const budget = createUnknownKeyBudget()
  const refresher = createRefresher(load, {
    cache,
    budget,
    stored: createStoredKeys(issuer, store, maxStaleMs, clock),
    // Keys with a shorter lifetime than the pause between two fetches would expire although their issuer is up.
    refreshMs: Math.min(refreshMs, maxStaleMs / 2),
    clock,
    onEvent,
    onEnd: notifier.notify,
    signal,
  })
  const findKey: FindKeyFor = async (header, token, clientAddress) => {
    const untilMs = clock.monotonicMs() + keyWaitMs
    for (;;) {
      const keys = cache.find()
      const key = keys && (await keys(header, token).catch(dropNoMatch))
      if (key) return key
      if (cache.find() !== keys) continue
      refresher.askForUnknownKey(clientAddress)
      if (!refresher.isUnderWay()) {
        // If the issuer cannot be asked, an unknown key proves nothing against the token.
        throw keys && refresher.isIssuerUp() ? new errors.JWKSNoMatchingKey() : new GatewayError('issuer_unavailable')
      }
      if (!(await notifier.wait(untilMs - clock.monotonicMs()))) throw new GatewayError('issuer_unavailable')
    }
  }
  return {
    findKey,
    noteProven: (clientAddress, expiresAtSeconds = Number.POSITIVE_INFINITY) => {
      // An old token is found in many a log.
      if (expiresAtSeconds * 1000 > clock.now().getTime()) budget.noteProven(clientAddress)
    },
    keysByHeader: cache.keysByHeader,
    refresh: refresher.refresh,
    ageMs: cache.ageMs,
    version: cache.version,
    lists: async (headerText, key) => {
      const keys = cache.find()
      if (!keys) return undefined
      return chooseKey(headerText, keys).then(
        (listed) => isSameKey(listed, key),
        () => false,
      )
    },
  }
}

function dropNoMatch(error: unknown): undefined {
  if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
}

type Notifier = Readonly<{
  notify: () => void
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
