import { readFileSync } from 'node:fs'

/** A metric as docs/reference/metrics.md lists it. */
export type DocumentedMetric = Readonly<{ name: string; type: string; labels: readonly string[]; example: string }>

const text = readFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8')

/** Those of the gateway, each in a row of its own. */
export const documentedMetrics: readonly DocumentedMetric[] = [
  ...text.matchAll(/^\| `(sallyport_\w+)` \| (\w+) \|([^|]*)\| [^|]+ \| `([^`|]+)` \|$/gm),
].map(([, name = '', type = '', labels = '', example = '']) => ({
  name,
  type,
  labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label),
  example,
}))

/** Those of Node and the system, by their names alone. */
export const documentedDefaults: readonly string[] = [
  ...new Set([...text.matchAll(/`((?:nodejs|process)_\w+)`/g)].map(([, name = '']) => name)),
]

/** The names of metrics in an expression of PromQL, without the endings of a histogram's series. */
export const namesIn = (expression: string): readonly string[] => [
  ...new Set(
    (expression.match(/\b(?:sallyport|nodejs|process)_\w+/g) ?? []).map((name) =>
      name.replace(/_(?:bucket|sum|count)$/, ''),
    ),
  ),
]
