import type { MetricsSnapshot } from '../gateway/observe/metrics/combine.ts'

export type Series = Readonly<{ labels: Readonly<Record<string, string>>; value: number }>

export type MetricsReader = Readonly<{
  all: (name: string) => readonly Series[]
  sum: (name: string, isWanted?: (labels: Series['labels']) => boolean) => number
  one: (name: string) => number | undefined
}>

export function readMetrics(snapshot: MetricsSnapshot): MetricsReader {
  const byName = new Map(
    snapshot.map(({ name, values }) => [
      name,
      values.map(({ labels, value }): Series => ({ labels: toWords(labels), value })),
    ]),
  )
  const all = (name: string): readonly Series[] => byName.get(name) ?? []
  return {
    all,
    sum: (name, isWanted = () => true) =>
      all(name)
        .filter(({ labels }) => isWanted(labels))
        .reduce((total, { value }) => total + value, 0),
    one: (name) => all(name)[0]?.value,
  }
}

const toWords = (labels: Readonly<Partial<Record<string, string | number>>>): Series['labels'] =>
  Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]))
