import type { JWK } from 'jose'
import type { Clock } from '../clock.ts'
import { fingerprint } from './key-cache.ts'
import { usableKeys } from './usable-keys.ts'

/** Where the last good key set of each issuer outlives the process. */
export type KeyStore = Readonly<{
  /** What comes back is as good as fetched: a list that still has to be looked through. */
  load: (issuer: string) => Promise<Readonly<{ keys: unknown; fetchedAt: Date }> | undefined>
  /** A set that was fetched later stays. */
  save: (issuer: string, keys: readonly object[], fetchedAt: Date) => Promise<void>
}>

/** A stored set that may serve, its time put on the monotonic clock. */
export type RecalledKeys = Readonly<{ keys: readonly JWK[]; fetchedAtMs: number }>

/** One issuer's part of the store. */
export type StoredKeys = Readonly<{
  /** Undefined where nothing is stored that could serve. */
  load: () => Promise<RecalledKeys | undefined>
  /** Stores a set that was fetched this moment, unless the store has it already. */
  save: (keys: readonly JWK[]) => Promise<void>
}>

/** The same set is written again only now and then: a restart then costs at most this share of the time that keys serve. */
const rewriteShare = 1 / 10

/** Remembers what the store holds, so that it is written only where that is news. */
export function createStoredKeys(issuer: string, store: KeyStore, maxStaleMs: number, clock: Clock): StoredKeys {
  const { now, monotonicMs } = clock
  let stored: Readonly<{ text: string; atMs: number }> | undefined
  return {
    load: async () => {
      const found = await store.load(issuer)
      if (!found || !Array.isArray(found.keys)) return undefined
      const keys = usableKeys(found.keys)
      // A time in the future is another clock's mistake, and must not make the keys serve any longer.
      const ageMs = Math.max(0, now().getTime() - found.fetchedAt.getTime())
      const fetchedAtMs = monotonicMs() - ageMs
      stored = { text: fingerprint(keys), atMs: fetchedAtMs }
      return keys.length > 0 && ageMs <= maxStaleMs ? { keys, fetchedAtMs } : undefined
    },
    save: async (keys) => {
      const text = fingerprint(keys)
      const atMs = monotonicMs()
      if (stored?.text === text && atMs - stored.atMs < maxStaleMs * rewriteShare) return
      await store.save(issuer, keys, now())
      stored = { text, atMs }
    },
  }
}
