/** Samples of counts, one each time a page asks: the difference to an earlier one makes a total a rate. */
export type Rates = Readonly<{
  note: (atMs: number, counts: Counts) => void
  /** A second, over the last samples; undefined before the second one. */
  perSecond: (name: string) => number | undefined
  /** How much a count has grown over all samples that are remembered. */
  growth: (name: string) => number
  /** The rate between each sample and the next. */
  history: (name: string) => readonly number[]
}>

type Counts = Readonly<Record<string, number>>

type Sample = Readonly<{ atMs: number; counts: Counts }>

const rememberMs = 120_000
const recentMs = 10_000

/** Pages that are open together must not shorten each other's steps. */
const closestMs = 1_000

/** Without an open page nothing is sampled: no timer runs. */
export function createRates(): Rates {
  let samples: readonly Sample[] = []
  const between = (one: Sample, other: Sample, name: string): number =>
    Math.max(0, (((other.counts[name] ?? 0) - (one.counts[name] ?? 0)) / (other.atMs - one.atMs)) * 1_000)
  return {
    note: (atMs, counts) => {
      const last = samples.at(-1)
      if (last && atMs - last.atMs < closestMs) return
      samples = [...samples.filter((sample) => atMs - sample.atMs <= rememberMs), { atMs, counts }]
    },
    perSecond: (name) => {
      const last = samples.at(-1)
      const first = samples.find(({ atMs }) => last !== undefined && last.atMs - atMs <= recentMs) ?? last
      return last && first && first !== last ? between(first, last, name) : undefined
    },
    growth: (name) => (samples.at(-1)?.counts[name] ?? 0) - (samples[0]?.counts[name] ?? 0),
    history: (name) =>
      samples.slice(1).map((sample, index) => {
        const before = samples[index]
        return before ? between(before, sample, name) : 0
      }),
  }
}
