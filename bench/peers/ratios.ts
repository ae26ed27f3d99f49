import type { Row } from './contest.ts'

/** A ratio of two rows, and what it may be at the most. */
export type Ratio = Readonly<{ name: string; value: number; limit: number; aim: number }>

type Figure = 'cpuMicrosPerRequest' | 'p99Micros'

/** Figures of the gateway by those of others in the same run. */
const wanted: readonly (readonly [ours: string, other: string, figure: Figure, limit: number, aim: number])[] = [
  ['sallyport', 'nginx, forwards only', 'cpuMicrosPerRequest', 2.5, 2.2],
  ['sallyport', 'HAProxy jwt_verify RS256', 'cpuMicrosPerRequest', 0.85, 0.65],
  ['sallyport', 'Envoy jwt_authn + RBAC', 'cpuMicrosPerRequest', 1, 0.8],
  ['sallyport', 'nginx auth_request + sallyport', 'cpuMicrosPerRequest', 0.8, 0.6],
  ['sallyport', 'http-proxy, same decision', 'cpuMicrosPerRequest', 0.4, 0.28],
  ['sallyport, every token new', 'HAProxy jwt_verify RS256', 'cpuMicrosPerRequest', 1.6, 1.35],
  ['sallyport, 64 KiB', 'nginx, forwards only, 64 KiB', 'cpuMicrosPerRequest', 1.5, 1.2],
  ['sallyport, 10,000 routes', 'sallyport, 10 routes', 'cpuMicrosPerRequest', 1.05, 1],
  ['sallyport', 'nginx auth_request + sallyport', 'p99Micros', 1, 0.8],
]

/** Those whose rows were measured. */
export function computeRatios(rows: readonly Row[]): readonly Ratio[] {
  const find = (name: string, figure: Figure): number | undefined => rows.find((row) => row.name === name)?.[figure]
  return wanted.flatMap(([ours, other, figure, limit, aim]) => {
    const [left, right] = [find(ours, figure), find(other, figure)]
    if (left === undefined || right === undefined) return []
    const what = figure === 'p99Micros' ? ' (p99 added)' : ''
    return [{ name: `${ours} / ${other}${what}`, value: Math.round((left / right) * 100) / 100, limit, aim }]
  })
}
