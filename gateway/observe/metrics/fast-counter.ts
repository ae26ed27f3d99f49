import { Counter, type Registry } from 'prom-client'

export type FastCounter = { count: number }

/** A value for each label, in the order of the labels. */
export type FastCounters<Labels extends readonly string[]> = (
  ...values: { [Index in keyof Labels]: string | number }
) => FastCounter

type Branch = { readonly below: Map<string | number, Branch>; tally: FastCounter | undefined }

/**
 * Found by a few look-ups and increased by `count += 1`. The library would compose a key of all labels at each
 * increase, so it gets the counts at each scrape.
 */
export function createTallies<Labels extends readonly string[]>(
  { name, help, labels }: Readonly<{ name: string; help: string; labels: Labels }>,
  registers: Registry[],
): FastCounters<Labels> {
  const labelNames: readonly string[] = labels
  const root: Branch = { below: new Map(), tally: undefined }
  const series: Readonly<{ labels: Record<string, string | number>; tally: FastCounter }>[] = []
  new Counter({
    name,
    help,
    labelNames: [...labelNames],
    registers,
    collect() {
      this.reset()
      for (const { labels, tally } of series) this.inc(labels, tally.count)
    },
  })
  const begin = (values: readonly (string | number)[]): FastCounter => {
    const tally = { count: 0 }
    series.push({ labels: Object.fromEntries(labelNames.map((label, index) => [label, values[index] ?? ''])), tally })
    return tally
  }
  return (...values) => {
    let branch = root
    for (const value of values) {
      let next = branch.below.get(value)
      if (!next) {
        next = { below: new Map(), tally: undefined }
        branch.below.set(value, next)
      }
      branch = next
    }
    branch.tally ??= begin(values)
    return branch.tally
  }
}
