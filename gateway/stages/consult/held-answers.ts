import { createBoundedMap } from '../../base/lib/bounded-map.ts'
import { splitTag, type Tag } from '../../directory/change.ts'
import { factMs } from '../../rights/budget.ts'
import type { HeardLog } from '../../rights/heard.ts'

export type HeldAnswers = Readonly<{
  find: (key: string) => readonly boolean[] | undefined
  keep: (key: string, answer: KeptAnswer) => void
  size: () => number
}>

export type KeptAnswer = Readonly<{
  decisions: readonly boolean[]
  asked: AskedAt
  untilMs: number
  tags: readonly Tag[]
}>

/** When a question was asked, and the position of the log of changes at that moment. */
export type AskedAt = Readonly<{ atMs: number; position: number }>

export type HeardSince = (tags: readonly Tag[], asked: AskedAt) => boolean

export function createHeldAnswers(maxEntries: number, monotonicMs: () => number, heardSince: HeardSince): HeldAnswers {
  const permitted = createBoundedMap<KeptAnswer>(maxEntries)
  // Apart, so that refusals, which anyone may bring about, evict no permit.
  const refused = createBoundedMap<KeptAnswer>(maxEntries)
  return {
    find: (key) => {
      const kept = permitted.get(key) ?? refused.get(key)
      if (!kept || monotonicMs() >= kept.untilMs || heardSince(kept.tags, kept.asked)) return undefined
      return kept.decisions
    },
    keep: (key, answer) => {
      if (monotonicMs() >= answer.untilMs || heardSince(answer.tags, answer.asked)) return
      const isPermitted = answer.decisions.every(Boolean)
      const [here, there] = isPermitted ? [permitted, refused] : [refused, permitted]
      there.remove(key)
      here.set(key, answer)
    },
    size: () => permitted.size() + refused.size(),
  }
}

/** Whether a change may concern the subjects of a question, or changes may have gone unheard since it was asked. */
export const createHeardSince =
  (heard: HeardLog, monotonicMs: () => number, knownAt: (readAtMs: number) => number): HeardSince =>
  (tags, { atMs, position }) =>
    monotonicMs() - knownAt(atMs) > factMs ||
    heard.since((moments) => Math.max(0, ...tags.map((tag) => moments.at(...splitTag(tag)))), position)
