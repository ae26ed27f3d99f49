import type { RefusalCode } from '../../base/errors/gateway-error.ts'
import type { ObserveMs } from './bound-histogram.ts'
import type { Meter } from './meter.ts'

export const stages = ['route', 'authenticate', 'resolve', 'resource', 'decide', 'locate', 'pin'] as const

export type Stage = (typeof stages)[number]

export type StageMetrics = Readonly<{
  observeStage: Readonly<Record<Stage, ObserveMs>>
  countFailure: (code: RefusalCode) => void
}>

/** Most stages take microseconds; those that ask a store or an issuer take longer. */
const buckets = [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 1]

const expected: readonly RefusalCode[] = ['cluster_offline', 'upstream_unavailable', 'upstream_timeout', 'internal']

export function createStageMetrics({ counter, histogram }: Meter): StageMetrics {
  const durations = histogram(
    'sallyport_stage_duration_seconds',
    'Duration of each stage before the upstream, for passed and refused requests.',
    buckets,
  )
  const failures = counter(
    'sallyport_failures_total',
    'Allowed requests that failed, by code: upstream or cluster unavailable, or an internal error.',
    'code',
  )
  for (const code of expected) failures(code)
  const observers = stages.map((stage) => [stage, durations.bind({ stage })] as const)
  return {
    observeStage: Object.fromEntries(observers) as Record<Stage, ObserveMs>, // every stage has its entry
    countFailure: (code) => {
      failures(code).count += 1
    },
  }
}
