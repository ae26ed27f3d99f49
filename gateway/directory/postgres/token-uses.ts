import { guarded } from '../../fault/guarded.ts'
import type { Directory } from '../directory.ts'
import type { Query } from './pool.ts'
import { noteTokenUses } from './statements.ts'

const flushIntervalMs = 5_000

/** A use is written at most this often for one token. */
const writeIntervalMs = 60_000

/** Tokens remembered as written lately; past this the oldest are forgotten, and cost one more write. */
const rememberedTokens = 50_000

export type TokenUses = Readonly<{
  note: Directory['noteTokenUse']
  /** Writes what is noted, now; rejects when the store cannot be asked, and keeps the notes. */
  flush: () => Promise<void>
  stop: () => void
}>

/** Collects the uses of tokens and writes them in batches, off the way of any request. */
export function collectTokenUses(query: Query, onError: (error: unknown) => void): TokenUses {
  const noted = new Map<number, Date>()
  const writtenAtMs = new Map<number, number>()

  const flush = async (): Promise<void> => {
    if (noted.size === 0) return
    const batch = [...noted]
    // In the order of the ids, so that two replicas' batches cannot lock each other out.
    batch.sort(([left], [right]) => left - right)
    await query(noteTokenUses, [batch.map(([id]) => id), batch.map(([, at]) => at)])
    for (const [id, at] of batch) {
      // Uses that came in the meantime are as good as written, but for those of another minute.
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

/** A clock that was set back makes a use due as well: rather written once more than not for hours. */
const isDue = (at: Date, writtenAtMs: number): boolean => Math.abs(at.getTime() - writtenAtMs) >= writeIntervalMs
