import { Gauge, type Registry } from 'prom-client'
import { createBoundHistogram, type ObserveMs } from './bound-histogram.ts'
import { createTallies } from './fast-counter.ts'

export type IntrospectionMetrics = Readonly<{
  countIntrospection: (issuer: string, outcome: string) => void
  observeIntrospection: ObserveMs
  watchIntrospections: (countWaiting: () => number) => void
}>

export function createIntrospectionMetrics(registers: Registry[]): IntrospectionMetrics {
  const introspections = createTallies(
    {
      name: 'sallyport_introspections_total',
      help: 'Opaque tokens that were not cached, by issuer and outcome: active, inactive, refused (by its claims), failed, shed or throttled.',
      labelNames: ['issuer', 'outcome'],
    },
    registers,
  )
  const durations = createBoundHistogram({
    name: 'sallyport_introspection_duration_seconds',
    help: 'Duration of a question to an issuer about an opaque token.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers,
  })
  const lanes: (() => number)[] = []
  new Gauge({
    name: 'sallyport_introspections_waiting',
    help: 'Opaque tokens that wait for a question to their issuer.',
    registers,
    collect() {
      this.set(lanes.reduce((sum, countWaiting) => sum + countWaiting(), 0))
    },
  })
  return {
    countIntrospection: (issuer, outcome) => {
      introspections(issuer, outcome).count += 1
    },
    observeIntrospection: durations.bind({}),
    watchIntrospections: (countWaiting) => {
      lanes.push(countWaiting)
    },
  }
}
