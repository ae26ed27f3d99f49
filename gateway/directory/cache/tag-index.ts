import type { Tag } from '../change.ts'

export type TagIndex = Readonly<{
  add: (key: string, tags: readonly Tag[]) => void
  remove: (key: string, tags: readonly Tag[]) => void
  keys: (tag: Tag) => readonly string[]
  clear: () => void
}>

const noKeys: readonly string[] = []

export function createTagIndex(): TagIndex {
  const keysByTag = new Map<Tag, Set<string>>()
  return {
    add: (key, tags) => {
      for (const tag of tags) {
        const keys = keysByTag.get(tag)
        if (keys) keys.add(key)
        else keysByTag.set(tag, new Set([key]))
      }
    },
    remove: (key, tags) => {
      for (const tag of tags) {
        const keys = keysByTag.get(tag)
        keys?.delete(key)
        if (keys?.size === 0) keysByTag.delete(tag)
      }
    },
    keys: (tag) => {
      const keys = keysByTag.get(tag)
      return keys ? [...keys] : noKeys
    },
    clear: () => keysByTag.clear(),
  }
}
