import { limitBytes } from './container.ts'
import type { Fared } from './honest.ts'
import type { Order, Told } from './order.ts'

/** The effect of one attack on honest clients. */
export type Outcome = Readonly<{
  name: string
  quiet: Fared
  attacked: Fared
  /** Behind nginx, under the same attack. */
  nginx: Fared | undefined
  peakBytes: number
  adminMs: number
  /** The part of a processor that the gateway used under attack, without its waiting for one. */
  cpuShare: number
  /** Whether the process was there at the end, and the system had not ended any of its own. */
  isAlive: boolean
  told: Told
  order: Pick<Order, 'connections' | 'perSecond'>
}>

/** The longest that a prober or a scraper waits. */
const mostAdminMs = 100

/** Broken promises, as sentences. */
export function findBreaches({ quiet, attacked, nginx, peakBytes, adminMs, isAlive }: Outcome): readonly string[] {
  const allowedMs = Math.max(2 * quiet.p99Ms, nginx && nginx.failed === 0 ? nginx.p99Ms : 0)
  return [
    ...(isAlive ? [] : ['a process ended']),
    ...(attacked.failed > 0 ? [`${attacked.failed} failed: ${attacked.failures.slice(0, 3).join(', ')}`] : []),
    ...(attacked.p99Ms > allowedMs ? [`p99 above ${allowedMs.toFixed(1)} ms`] : []),
    ...(peakBytes > limitBytes ? ['more memory than the chart allows'] : []),
    ...(adminMs > mostAdminMs ? [`the admin listener took more than ${mostAdminMs} ms`] : []),
  ]
}

/** Attacks that failed to run as ordered, as sentences: they would make a figure look better than it is. */
export function findWeaknesses({ told, order }: Outcome): readonly string[] {
  const rate = told.begun / told.seconds
  const isSlow = order.perSecond !== undefined && rate < 0.9 * order.perSecond
  const isFew = order.perSecond === undefined && told.begun < order.connections
  return [
    ...(told.cpuShare > 0.9 ? ['the attacker had no processor time left'] : []),
    ...(isSlow ? [`the attack reached ${rate.toFixed(0)} of ${order.perSecond} a second`] : []),
    ...(isFew ? [`the attack reached ${told.begun} of ${order.connections} connections`] : []),
  ]
}
