import type { Metric, Registry } from 'prom-client'

type Labels = Readonly<Record<string, string>>

/** A counter whose children are found once, at start: a label lookup for each request would cost more than the rest. */
export type BoundCounter = Readonly<{ bind: (labels: Labels) => () => void }>

export type CounterSettings = Readonly<{ name: string; help: string; registers: readonly Registry[] }>

/** Registers a counter that prom-client tells at each scrape like one of its own. */
export function createBoundCounter({ name, help, registers }: CounterSettings): BoundCounter {
  const children: { labels: Labels; value: number }[] = []
  const metric = {
    name,
    get: async () => ({
      name,
      help,
      type: 'counter',
      aggregator: 'sum',
      values: children.map((child) => ({ ...child })),
    }),
    reset: () => {
      for (const child of children) child.value = 0
    },
  }
  // A registry asks its metrics for no more than this, though the type names the classes of the package.
  for (const registry of registers) registry.registerMetric(metric as unknown as Metric)
  return {
    bind: (labels) => {
      const child = { labels, value: 0 }
      children.push(child)
      return () => {
        child.value += 1
      }
    },
  }
}
