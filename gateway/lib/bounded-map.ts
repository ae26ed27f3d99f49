import { LRUCache } from 'lru-cache'

export type BoundedMap<Value extends object> = Readonly<{
  get: (key: string) => Value | undefined
  set: (key: string, value: Value) => void
  remove: (key: string) => void
  size: () => number
}>

export function createBoundedMap<Value extends object>(maxEntries: number): BoundedMap<Value> {
  const entries = new LRUCache<string, Value>({ max: maxEntries })
  return {
    get: (key) => entries.get(key),
    set: (key, value) => void entries.set(key, value),
    remove: (key) => void entries.delete(key),
    size: () => entries.size,
  }
}
