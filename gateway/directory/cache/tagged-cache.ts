import { LRUCache } from 'lru-cache'
import type { Awaitable } from '../../base/lib/awaitable.ts'
import { factMs } from '../../rights/budget.ts'
import { HeardLog } from '../../rights/heard.ts'
import type { Tag } from '../change.ts'
import type { Freshness } from './freshness.ts'
import type { Grace } from './grace.ts'
import { createTagIndex } from './tag-index.ts'

export type TaggedCache<Value extends object, Absence extends string = never> = Readonly<{
  read: (key: string, load: Load<Value | Absence>, options?: ReadOptions) => Awaitable<Value | Absence | undefined>
  drop: (tag: Tag) => void
  clear: () => void
  size: () => number
}>

export type Load<Value> = () => Awaitable<Value | undefined>

export type ReadOptions = Readonly<{
  maxAgeMs?: number
  absenceKey?: string | null
}>

export type TaggedCacheOptions<Value> = Readonly<{
  maxEntries: number
  ttlMs: number
  freshness: Freshness
  tagsOf: (value: Value, key: string) => readonly Tag[]
  onRead: (result: ReadResult) => void
  grace?: Grace
}>

export type ReadResult = 'hit' | 'negative_hit' | 'miss' | 'coalesced' | 'grace'

type Held<Value> = Readonly<{ value: Value; askedAtMs: number; tags: readonly Tag[] }>

type Loading<Value> = Readonly<{ value: Promise<Value | undefined>; askedAtMs: number }>

type HeldAbsence<Absence> = Readonly<{ absence: Absence | undefined; askedAtMs: number }>

/** Most have fewer. A user of a thousand organizations takes the room of many entries, so that memory is bounded. */
const tagsPerEntry = 8

export function createTaggedCache<Value extends object, Absence extends string = never>(
  options: TaggedCacheOptions<Value>,
): TaggedCache<Value, Absence> {
  const { maxEntries, ttlMs, freshness, onRead, grace } = options
  const entries = createEntries<Value>(maxEntries)
  const absences = createAbsences<Absence>(maxEntries, freshness)
  const loads = createLoads<Value | Absence>(options)
  const parts: CacheParts<Value, Absence> = { entries, absences, loads }

  const standIn = (known: Held<Value>): Value => {
    grace?.noteUse()
    onRead('grace')
    return known.value
  }
  /** If the store is down, the known value replaces the failed load, unless a change has invalidated it meanwhile. */
  const orKnown = (
    loaded: Promise<Value | Absence | undefined>,
    key: string,
    known: Held<Value>,
  ): Promise<Value | Absence | undefined> =>
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
      const absent = absenceKey === null ? undefined : absences.find(absenceKey)
      if (absent) {
        onRead('negative_hit')
        return absent.absence
      }
      // A load that finds nothing must be shared no more widely than its absence would be.
      const loaded = loads.share(absenceKey ?? key, (askedAtMs) =>
        loadInto(parts, options, { key, load, absenceKey, askedAtMs }),
      )
      return known ? orKnown(loaded, key, known) : loaded
    },
    drop: (tag) => {
      loads.forget()
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

type CacheParts<Value extends object, Absence extends string> = Readonly<{
  entries: ReturnType<typeof createEntries<Value>>
  absences: ReturnType<typeof createAbsences<Absence>>
  loads: ReturnType<typeof createLoads<Value | Absence>>
}>

type Miss<Value> = Readonly<{ key: string; load: Load<Value>; absenceKey: string | null; askedAtMs: number }>

async function loadInto<Value extends object, Absence extends string>(
  { entries, absences, loads }: CacheParts<Value, Absence>,
  { tagsOf, grace }: TaggedCacheOptions<Value>,
  { key, load, absenceKey, askedAtMs }: Miss<Value | Absence>,
): Promise<Value | Absence | undefined> {
  const began = loads.heard.position
  let value: Value | Absence | undefined
  try {
    value = await load()
  } catch (error) {
    grace?.noteFailure(error)
    throw error
  }
  grace?.noteSuccess()
  // A lookup from before an invalidation may hold the very fact that has changed. Its tags are unknown until it ends.
  if (loads.heard.anySince(began)) return value
  if (typeof value === 'object') entries.put(key, { value, askedAtMs, tags: tagsOf(value, key) })
  else if (absenceKey !== null) absences.note(absenceKey, { absence: value, askedAtMs })
  return value
}

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

/** Separate from the values, so that a flood of guesses cannot evict known facts. */
function createAbsences<Absence extends string>(maxEntries: number, freshness: Freshness) {
  const held = new LRUCache<string, HeldAbsence<Absence>>({ max: maxEntries })
  return {
    find: (key: string): HeldAbsence<Absence> | undefined => {
      const absent = held.get(key)
      return absent && freshness.isFresh(absent.askedAtMs, factMs) ? absent : undefined
    },
    note: (key: string, absent: HeldAbsence<Absence>): void => void held.set(key, absent),
    clear: (): void => {
      // A clear takes time in proportion to `max`, not to its entries, and each change asks for one.
      if (held.size > 0) held.clear()
    },
  }
}

function createLoads<Value>({ freshness, onRead }: Pick<TaggedCacheOptions<Value>, 'freshness' | 'onRead'>) {
  const loading = new Map<string, Loading<Value>>()
  const heard = new HeardLog()
  return {
    heard,
    share: (name: string, load: (askedAtMs: number) => Promise<Value | undefined>): Promise<Value | undefined> => {
      const pending = loading.get(name)
      // A slow load is shared no longer than a fact may live without a sync.
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
      heard.noteUnnamed()
      loading.clear()
    },
  }
}
