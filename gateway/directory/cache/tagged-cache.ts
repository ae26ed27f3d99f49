import { LRUCache } from 'lru-cache'
import type { Awaitable } from '../../lib/awaitable.ts'
import type { Tag } from '../change.ts'
import type { Freshness } from './freshness.ts'
import type { Grace } from './grace.ts'
import { createTagIndex } from './tag-index.ts'

/** Facts of the directory, held in memory under a key and found again by what they depend on. */
export type TaggedCache<Value> = Readonly<{
  /** From memory, or loaded; concurrent misses share one load. */
  read: (key: string, load: Load<Value>, options?: ReadOptions) => Awaitable<Value | undefined>
  /** Forgets what depends on this; loads under way are neither stored nor shared any more. */
  drop: (tag: Tag) => void
  clear: () => void
  size: () => number
}>

export type Load<Value> = () => Awaitable<Value | undefined>

export type ReadOptions = Readonly<{
  maxAgeMs?: number
  /** Under which name an absence is remembered, and a load shared; null for never. The key itself by default. */
  absenceKey?: string | null
}>

export type TaggedCacheOptions<Value> = Readonly<{
  /** Older entries are dropped for newer ones; an entry with many tags counts for more. */
  maxEntries: number
  ttlMs: number
  freshness: Freshness
  /** All that a value depends on. */
  tagsOf: (value: Value, key: string) => readonly Tag[]
  onRead: (result: ReadResult) => void
  /** Without it nothing stands in for what cannot be asked. */
  grace?: Grace
}>

/** `shared`: another request had already asked; `grace`: what was known before the store was out. */
export type ReadResult = 'hit' | 'absent' | 'miss' | 'shared' | 'grace'

type Held<Value> = Readonly<{ value: Value; askedAtMs: number; tags: readonly Tag[] }>

type Loading<Value> = Readonly<{ value: Promise<Value | undefined>; askedAtMs: number }>

/** Something that was not there may be there the next moment: that is believed for one second at most. */
const absenceMs = 900

/** The room of an entry with this many tags counts once. */
const tagsPerEntry = 8

export function createTaggedCache<Value>(options: TaggedCacheOptions<Value>): TaggedCache<Value> {
  const { maxEntries, ttlMs, freshness, tagsOf, onRead, grace } = options
  const index = createTagIndex()
  const held = new LRUCache<string, Held<Value>>({
    max: maxEntries,
    maxSize: maxEntries * tagsPerEntry,
    sizeCalculation: ({ tags }) => Math.max(tagsPerEntry, tags.length),
    dispose: ({ tags }, key) => index.remove(key, tags),
  })
  // Apart, so that a flood of guesses cannot push out what is known.
  const absent = new LRUCache<string, number>({ max: maxEntries })
  const loading = new Map<string, Loading<Value>>()
  let generation = 0

  const start = async (key: string, load: Load<Value>, absenceKey: string | null, askedAtMs: number) => {
    const began = generation
    let value: Value | undefined
    try {
      value = await load()
    } catch (error) {
      grace?.noteFailure(error)
      throw error
    }
    grace?.noteSuccess()
    // What was asked for before an invalidation may be the very thing that it was about.
    if (began !== generation) return value
    if (value !== undefined) store(key, { value, askedAtMs, tags: tagsOf(value, key) })
    else if (absenceKey !== null) absent.set(absenceKey, askedAtMs)
    return value
  }
  const store = (key: string, entry: Held<Value>): void => {
    held.set(key, entry)
    // Too large for the cache, it was not kept.
    if (held.peek(key) === entry) index.add(key, entry.tags)
  }
  const forgetLoads = (): void => {
    generation += 1
    loading.clear()
  }

  return {
    read: (key, load, { maxAgeMs = ttlMs, absenceKey = key } = {}) => {
      const entry = held.get(key)
      if (entry && freshness.isFresh(entry.askedAtMs, maxAgeMs)) {
        onRead('hit')
        return entry.value
      }
      const known = entry && grace?.covers(freshness.knownAt(entry.askedAtMs)) ? entry : undefined
      const standIn = (): Value | undefined => {
        grace?.noteUse()
        onRead('grace')
        return known?.value
      }
      if (known && grace?.isOut()) return standIn()
      /** The load's, or what was known where the store is out; not where a change was heard since. */
      const orKnown = (value: Promise<Value | undefined>): Promise<Value | undefined> =>
        known
          ? value.catch((error: unknown) => {
              if (grace?.noteFailure(error) && held.peek(key) === known) return standIn()
              throw error
            })
          : value
      const missedAtMs = absenceKey === null ? undefined : absent.get(absenceKey)
      if (missedAtMs !== undefined && freshness.isFresh(missedAtMs, absenceMs)) {
        onRead('absent')
        return undefined
      }
      // One that finds nothing is shared no more widely than its absence would be; and a slow one no longer than a
      // change may go unheard.
      const name = absenceKey ?? key
      const pending = loading.get(name)
      const shared = pending && freshness.isFresh(pending.askedAtMs, Number.POSITIVE_INFINITY) ? pending : undefined
      onRead(shared === undefined ? 'miss' : 'shared')
      if (shared !== undefined) return orKnown(shared.value)
      const askedAtMs = freshness.now()
      const value = start(key, load, absenceKey, askedAtMs).finally(() => {
        if (loading.get(name)?.value === value) loading.delete(name)
      })
      loading.set(name, { value, askedAtMs })
      return orKnown(value)
    },
    drop: (tag) => {
      forgetLoads()
      // Absences are few and live a second: which of them a change ends is not worth knowing.
      absent.clear()
      for (const key of index.keys(tag)) held.delete(key)
    },
    clear: () => {
      forgetLoads()
      absent.clear()
      held.clear()
      index.clear()
    },
    size: () => held.size,
  }
}
