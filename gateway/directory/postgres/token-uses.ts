import { guarded } from '../../base/fault/guarded.ts'
import type { Directory } from '../directory.ts'
import type { Query } from './pool.ts'
import { noteTokenUses } from './statements.ts'

/** Uses of five seconds share a statement. A process that is killed loses no more of them. */
const flushIntervalMs = 5_000

/** SPEC section 2.6: at most once a minute a token. */
const writeIntervalMs = 60_000

/** Beyond this, the oldest tokens are forgotten, which costs one more write each. */
const rememberedTokens = 50_000

export type TokenUses = Readonly<{
  note: Directory['noteTokenUse']
  flush: () => Promise<void>
  stop: () => void
}>

export function collectTokenUses(query: Query, onError: (error: unknown) => void): TokenUses {
  const noted = new Map<number, Date>()
  const writtenAtMs = new Map<number, number>()

  const flush = async (): Promise<void> => {
    if (noted.size === 0) return
    const batch = [...noted]
    // Sorted by id, so that the batches of two replicas cannot deadlock.
    batch.sort(([left], [right]) => left - right)
    await query(noteTokenUses, [batch.map(([id]) => id), batch.map(([, at]) => at)])
    for (const [id, at] of batch) {
      if (!isDue(noted.get(id) ?? at, at.getTime())) noted.delete(id)
      writtenAtMs.delete(id)
      writtenAtMs.set(id, at.getTime())
    }
    for (const id of writtenAtMs.keys()) {
      if (writtenAtMs.size <= rememberedTokens) break
      writtenAtMs.delete(id)
    }
  }
  const timer = setInterval(
    guarded('directory', () => flush().catch(onError)),
    flushIntervalMs,
  )
  timer.unref()
  return {
    note: (id, at) => {
      const last = writtenAtMs.get(id)
      if (last === undefined || isDue(at, last)) noted.set(id, at)
    },
    flush,
    stop: () => clearInterval(timer),
  }
}

/** A clock that was set back also makes a use due: one more write is better than none for hours. */
const isDue = (at: Date, writtenAtMs: number): boolean => Math.abs(at.getTime() - writtenAtMs) >= writeIntervalMs
