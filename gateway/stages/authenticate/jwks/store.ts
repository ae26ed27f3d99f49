import type { JWK } from 'jose'
import type { Clock } from '../clock.ts'
import { fingerprint } from './key-cache.ts'
import { usableKeys } from './usable-keys.ts'

export type KeyStore = Readonly<{
  /** Returns stored keys, which the caller must check as if they were fetched. */
  load: (issuer: string) => Promise<Readonly<{ keys: unknown; fetchedAt: Date }> | undefined>
  save: (issuer: string, keys: readonly object[], fetchedAt: Date) => Promise<void>
}>

export type RecalledKeys = Readonly<{ keys: readonly JWK[]; fetchedAtMs: number }>

export type StoredKeys = Readonly<{
  load: () => Promise<RecalledKeys | undefined>
  save: (keys: readonly JWK[]) => Promise<void>
}>

/**
 * An unchanged set is rewritten this seldom. So after a restart, stored keys have lost at most this share of their
 * lifetime.
 */
const rewriteShare = 1 / 10

export function createStoredKeys(issuer: string, store: KeyStore, maxStaleMs: number, clock: Clock): StoredKeys {
  const { now, monotonicMs } = clock
  let stored: Readonly<{ text: string; atMs: number }> | undefined
  return {
    load: async () => {
      const found = await store.load(issuer)
      if (!found || !Array.isArray(found.keys)) return undefined
      const keys = usableKeys(found.keys)
      // A time in the future comes from another clock's error and must not prolong the keys' life.
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
