import type { Change, Tag } from '../directory/change.ts'
import { createBoundedMap } from '../lib/bounded-map.ts'

export type HeldAnswers = Readonly<{
  find: (key: string) => readonly boolean[] | undefined
  keep: (key: string, answer: KeptAnswer) => void
  size: () => number
}>

export type KeptAnswer = Readonly<{
  decisions: readonly boolean[]
  askedAtMs: number
  untilMs: number
  tags: readonly Tag[]
}>

export type HeardSince = (tags: readonly Tag[], askedAtMs: number) => boolean

export function createHeldAnswers(maxEntries: number, monotonicMs: () => number, heardSince: HeardSince): HeldAnswers {
  const permitted = createBoundedMap<KeptAnswer>(maxEntries)
  const refused = createBoundedMap<KeptAnswer>(maxEntries)
  return {
    find: (key) => {
      const kept = permitted.get(key) ?? refused.get(key)
      if (!kept || monotonicMs() >= kept.untilMs || heardSince(kept.tags, kept.askedAtMs)) return undefined
      return kept.decisions
    },
    keep: (key, answer) => {
      if (monotonicMs() >= answer.untilMs || heardSince(answer.tags, answer.askedAtMs)) return
      const isPermitted = answer.decisions.every(Boolean)
      const [here, there] = isPermitted ? [permitted, refused] : [refused, permitted]
      there.remove(key)
      here.set(key, answer)
    },
    size: () => permitted.size() + refused.size(),
  }
}

const rememberedChanges = 10_000

const unheardMs = 900

export function createHeardChanges(monotonicMs: () => number, knownAt: (readAtMs: number) => number) {
  const heardAtMs = new Map<string, number>()
  let allAtMs = Number.NEGATIVE_INFINITY
  const heardSince: HeardSince = (tags, askedAtMs) =>
    allAtMs >= askedAtMs ||
    monotonicMs() - knownAt(askedAtMs) > unheardMs ||
    tags.some((tag) => (heardAtMs.get(tag) ?? Number.NEGATIVE_INFINITY) >= askedAtMs)
  const hear = (change: Change): void => {
    if (change.kind === 'logout-token') return
    if (change.kind === 'everything' || heardAtMs.size >= rememberedChanges) {
      allAtMs = monotonicMs()
      heardAtMs.clear()
    } else heardAtMs.set(`${change.kind}:${change.id}`, monotonicMs())
  }
  return { hear, heardSince }
}
