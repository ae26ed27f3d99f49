import type { Address } from './resolver.ts'

export type Entry = {
  addresses: readonly Address[]
  answeredAtMs: number
  askedAtMs: number
  usedAtMs: number
  /** Whether its last answer came too late for connections to wait for. */
  isSlow: boolean
  version: number
  rotation: number
}

/** Names come from the configuration and from clusters, which must not add up. */
const maximumNames = 1_000

/** A name that fails is asked again only while connections need it; names of the past cost the name servers nothing. */
const usedMs = 60_000

export type Entries = Readonly<{
  find: (name: string) => Entry | undefined
  take: (name: string, addresses: readonly Address[], isSlow: boolean) => void
  noteAsked: (name: string) => boolean
  noteUse: (entry: Entry) => void
  isInUse: (entry: Entry) => boolean
  isOld: (entry: Entry) => boolean
  oldestMs: (names: readonly string[]) => number
}>

type EntriesOptions = Readonly<{ cacheMs: number; maxStaleMs?: number; monotonicMs?: () => number }>

export function createEntries({
  cacheMs,
  maxStaleMs = Number.POSITIVE_INFINITY,
  monotonicMs = () => performance.now(),
}: EntriesOptions): Entries {
  const held = new Map<string, Entry>()
  const isInUse = ({ usedAtMs }: Entry): boolean => monotonicMs() - usedAtMs < usedMs
  return {
    find: (name) => {
      const entry = held.get(name)
      if (entry && entry.addresses.length > 0 && monotonicMs() - entry.answeredAtMs >= maxStaleMs) {
        entry.addresses = []
        entry.version += 1
      }
      return entry
    },
    take: (name, addresses, isSlow) => {
      const known = held.get(name)
      const isChanged = known !== undefined && !isSameSet(known.addresses, addresses)
      const nowMs = monotonicMs()
      held.delete(name)
      held.set(name, {
        addresses,
        answeredAtMs: nowMs,
        askedAtMs: nowMs,
        usedAtMs: known?.usedAtMs ?? nowMs,
        isSlow,
        version: (known?.version ?? 0) + (isChanged ? 1 : 0),
        rotation: known?.rotation ?? 0,
      })
      dropOldest(held)
    },
    noteAsked: (name) => {
      const known = held.get(name)
      if (known) known.askedAtMs = monotonicMs()
      return known !== undefined
    },
    noteUse: (entry) => {
      entry.usedAtMs = monotonicMs()
    },
    isInUse,
    isOld: ({ askedAtMs }) => monotonicMs() - askedAtMs >= cacheMs,
    oldestMs: (names) => {
      const nowMs = monotonicMs()
      const inUse = names.flatMap((name) => held.get(name) ?? []).filter(isInUse)
      return Math.max(0, ...inUse.map(({ answeredAtMs }) => nowMs - answeredAtMs))
    },
  }
}

const isSameSet = (left: readonly Address[], right: readonly Address[]): boolean =>
  left.length === right.length && left.every(({ address }) => right.some((other) => other.address === address))

export function dropOldest(map: Map<string, unknown>): void {
  const [oldest] = map.keys()
  if (map.size > maximumNames && oldest !== undefined) map.delete(oldest)
}
