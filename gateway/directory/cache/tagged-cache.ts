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
export type ReadResult = 'hit' | 'negative_hit' | 'miss' | 'coalesced' | 'grace'

type Held<Value> = Readonly<{ value: Value; askedAtMs: number; tags: readonly Tag[] }>

type Loading<Value> = Readonly<{ value: Promise<Value | undefined>; askedAtMs: number }>

/** Something that was not there may be there the next moment: that is believed for one second at most. */
const absenceMs = 900

/** The room of an entry with this many tags counts once. */
const tagsPerEntry = 8

export function createTaggedCache<Value>(options: TaggedCacheOptions<Value>): TaggedCache<Value> {
  const { maxEntries, ttlMs, freshness, onRead, grace } = options
  const entries = createEntries<Value>(maxEntries)
  const absences = createAbsences(maxEntries, freshness)
  const loads = createLoads<Value>(options)
  const parts: CacheParts<Value> = { entries, absences, loads }

  const standIn = (known: Held<Value>): Value => {
    grace?.noteUse()
    onRead('grace')
    return known.value
  }
  /** The load's, or what was known where the store is out; not where a change was heard since. */
  const orKnown = (loaded: Promise<Value | undefined>, key: string, known: Held<Value>): Promise<Value | undefined> =>
    loaded.catch((error: unknown) => {
      if (grace?.noteFailure(error) && entries.holds(key, known)) return standIn(known)
      throw error
    })

  return {
    read: (key, load, { maxAgeMs = ttlMs, absenceKey = key } = {}) => {
      const entry = entries.get(key)
      if (entry && freshness.isFresh(entry.askedAtMs, maxAgeMs)) {
        onRead('hit')
        return entry.value
      }
      const known = entry && grace?.covers(freshness.knownAt(entry.askedAtMs)) ? entry : undefined
      if (known && grace?.isOut()) return standIn(known)
      if (absenceKey !== null && absences.has(absenceKey)) {
        onRead('negative_hit')
        return undefined
      }
      // One that finds nothing is shared no more widely than its absence would be.
      const loaded = loads.share(absenceKey ?? key, (askedAtMs) =>
        loadInto(parts, options, { key, load, absenceKey, askedAtMs }),
      )
      return known ? orKnown(loaded, key, known) : loaded
    },
    drop: (tag) => {
      loads.forget()
      // Absences are few and live a second: which of them a change ends is not worth knowing.
      absences.clear()
      entries.drop(tag)
    },
    clear: () => {
      loads.forget()
      absences.clear()
      entries.clear()
    },
    size: entries.size,
  }
}

type CacheParts<Value> = Readonly<{
  entries: ReturnType<typeof createEntries<Value>>
  absences: ReturnType<typeof createAbsences>
  loads: ReturnType<typeof createLoads<Value>>
}>

type Miss<Value> = Readonly<{ key: string; load: Load<Value>; absenceKey: string | null; askedAtMs: number }>

/** Loads a value, and keeps it, or its absence. */
async function loadInto<Value>(
  { entries, absences, loads }: CacheParts<Value>,
  { tagsOf, grace }: TaggedCacheOptions<Value>,
  { key, load, absenceKey, askedAtMs }: Miss<Value>,
): Promise<Value | undefined> {
  const began = loads.generation()
  let value: Value | undefined
  try {
    value = await load()
  } catch (error) {
    grace?.noteFailure(error)
    throw error
  }
  grace?.noteSuccess()
  // What was asked for before an invalidation may be the very thing that it was about.
  if (began !== loads.generation()) return value
  if (value !== undefined) entries.put(key, { value, askedAtMs, tags: tagsOf(value, key) })
  else if (absenceKey !== null) absences.note(absenceKey, askedAtMs)
  return value
}

/** Values by their keys, and their keys by what they depend on; those that were used least give way. */
function createEntries<Value>(maxEntries: number) {
  const index = createTagIndex()
  const held = new LRUCache<string, Held<Value>>({
    max: maxEntries,
    maxSize: maxEntries * tagsPerEntry,
    sizeCalculation: ({ tags }) => Math.max(tagsPerEntry, tags.length),
    dispose: ({ tags }, key) => index.remove(key, tags),
  })
  return {
    get: (key: string) => held.get(key),
    holds: (key: string, entry: Held<Value>): boolean => held.peek(key) === entry,
    put: (key: string, entry: Held<Value>): void => {
      held.set(key, entry)
      // Too large for the cache, it was not kept.
      if (held.peek(key) === entry) index.add(key, entry.tags)
    },
    drop: (tag: Tag): void => {
      for (const key of index.keys(tag)) held.delete(key)
    },
    clear: (): void => {
      held.clear()
      index.clear()
    },
    size: (): number => held.size,
  }
}

/** Apart from the values, so that a flood of guesses cannot push out what is known. */
function createAbsences(maxEntries: number, freshness: Freshness) {
  const missedAtMs = new LRUCache<string, number>({ max: maxEntries })
  return {
    has: (key: string): boolean => {
      const atMs = missedAtMs.get(key)
      return atMs !== undefined && freshness.isFresh(atMs, absenceMs)
    },
    note: (key: string, askedAtMs: number): void => void missedAtMs.set(key, askedAtMs),
    clear: () => missedAtMs.clear(),
  }
}

/** Loads under way. Concurrent misses share one until a change is heard, which begins another generation. */
function createLoads<Value>({ freshness, onRead }: Pick<TaggedCacheOptions<Value>, 'freshness' | 'onRead'>) {
  const loading = new Map<string, Loading<Value>>()
  let generation = 0
  return {
    generation: (): number => generation,
    share: (name: string, load: (askedAtMs: number) => Promise<Value | undefined>): Promise<Value | undefined> => {
      const pending = loading.get(name)
      // A slow one is shared no longer than a change may go unheard.
      const shared = pending && freshness.isFresh(pending.askedAtMs, Number.POSITIVE_INFINITY) ? pending : undefined
      onRead(shared === undefined ? 'miss' : 'coalesced')
      if (shared !== undefined) return shared.value
      const askedAtMs = freshness.now()
      const value = load(askedAtMs).finally(() => {
        if (loading.get(name)?.value === value) loading.delete(name)
      })
      loading.set(name, { value, askedAtMs })
      return value
    },
    forget: (): void => {
      generation += 1
      loading.clear()
    },
  }
}
