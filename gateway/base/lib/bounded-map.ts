import { LRUCache } from 'lru-cache'

export type BoundedMap<Value extends object> = Readonly<{
  get: (key: string) => Value | undefined
  set: (key: string, value: Value) => void
  remove: (key: string) => void
  size: () => number
}>

/** `weigh` says for how many entries a large value counts. A map that holds nothing else has room for each value. */
export function createBoundedMap<Value extends object>(
  maxEntries: number,
  weigh?: (value: Value) => number,
): BoundedMap<Value> {
  const entries = new LRUCache<string, Value>({
    max: maxEntries,
    ...(weigh && { maxSize: maxEntries, sizeCalculation: (value) => Math.min(maxEntries, Math.max(1, weigh(value))) }),
  })
  return {
    get: (key) => entries.get(key),
    set: (key, value) => void entries.set(key, value),
    remove: (key) => void entries.delete(key),
    size: () => entries.size,
  }
}
