import type { Metric, Registry } from 'prom-client'

type Labels = Readonly<Record<string, string>>

export type ObserveMs = (ms: number) => void

/** A histogram with bound label values: an observation adds to three numbers. */
export type BoundHistogram = Readonly<{ bind: (labels: Labels) => ObserveMs }>

export type HistogramSettings = Readonly<{
  name: string
  help: string
  buckets: readonly number[]
  registers: readonly Registry[]
}>

type Child = { readonly labels: Labels; readonly counts: Float64Array; sumMs: number }

type Value = Readonly<{ metricName: string; labels: Readonly<Record<string, string | number>>; value: number }>

export function createBoundHistogram({ name, help, buckets, registers }: HistogramSettings): BoundHistogram {
  const boundsMs = Float64Array.from(buckets, (seconds) => seconds * 1_000)
  const children: Child[] = []
  const metric = {
    name,
    get: async () => ({
      name,
      help,
      type: 'histogram',
      aggregator: 'sum',
      values: children.flatMap((child) => tell(name, buckets, child)),
    }),
    reset: () => {
      for (const child of children) {
        child.counts.fill(0)
        child.sumMs = 0
      }
    },
  }
  // The registry needs only these members; its type names the package's classes.
  for (const registry of registers) registry.registerMetric(metric as unknown as Metric)
  return {
    bind: (labels) => {
      const child: Child = { labels, counts: new Float64Array(buckets.length + 1), sumMs: 0 }
      children.push(child)
      return (ms) => observe(child, boundsMs, ms)
    },
  }
}

function observe(child: Child, boundsMs: Float64Array, ms: number): void {
  let index = 0
  while (index < boundsMs.length && ms > (boundsMs[index] as number)) index += 1
  child.counts[index] = (child.counts[index] as number) + 1
  child.sumMs += ms
}

function tell(name: string, buckets: readonly number[], { labels, counts, sumMs }: Child): readonly Value[] {
  let total = 0
  const values: Value[] = [...buckets, '+Inf'].map((le, index) => {
    total += counts[index] ?? 0
    return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: total }
  })
  return [
    ...values,
    { metricName: `${name}_sum`, labels, value: sumMs / 1_000 },
    { metricName: `${name}_count`, labels, value: total },
  ]
}
