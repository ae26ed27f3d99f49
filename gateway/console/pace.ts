/** Counts as they stood whenever somebody looked: what a total was a moment ago makes it a pace. */
export type Pace = Readonly<{
  note: (atMs: number, counts: Counts) => void
  /** A second, over the last looks; undefined before the second one. */
  perSecond: (name: string) => number | undefined
  /** How much a count has grown over all looks that are remembered. */
  growth: (name: string) => number
  /** The pace between each look and the next. */
  history: (name: string) => readonly number[]
}>

type Counts = Readonly<Record<string, number>>

type Look = Readonly<{ atMs: number; counts: Counts }>

const rememberMs = 120_000
const recentMs = 10_000

/** Pages that are open together must not shorten each other's steps. */
const closestMs = 1_000

/** Nothing is counted while nobody looks: no timer runs. */
export function createPace(): Pace {
  let looks: readonly Look[] = []
  const between = (one: Look, other: Look, name: string): number =>
    Math.max(0, (((other.counts[name] ?? 0) - (one.counts[name] ?? 0)) / (other.atMs - one.atMs)) * 1_000)
  return {
    note: (atMs, counts) => {
      const last = looks.at(-1)
      if (last && atMs - last.atMs < closestMs) return
      looks = [...looks.filter((look) => atMs - look.atMs <= rememberMs), { atMs, counts }]
    },
    perSecond: (name) => {
      const last = looks.at(-1)
      const first = looks.find(({ atMs }) => last !== undefined && last.atMs - atMs <= recentMs) ?? last
      return last && first && first !== last ? between(first, last, name) : undefined
    },
    growth: (name) => (looks.at(-1)?.counts[name] ?? 0) - (looks[0]?.counts[name] ?? 0),
    history: (name) =>
      looks.slice(1).map((look, index) => {
        const before = looks[index]
        return before ? between(before, look, name) : 0
      }),
  }
}
