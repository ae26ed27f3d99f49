// Questions to servers outside that hold up a request: decision points, and issuers of opaque tokens.
import type { ObserveMs } from './bound-histogram.ts'
import type { Meter } from './meter.ts'

export type DecisionPointMetrics = Readonly<{
  countPdpQuestion: (pdp: string, outcome: string) => void
  observePdp: (pdp: string) => ObserveMs
  watchPdp: (pdp: string, countWaiting: () => number) => void
}>

export function createDecisionPointMetrics({ count, histogram, collect }: Meter): DecisionPointMetrics {
  const countPdpQuestion = count(
    'sallyport_pdp_questions_total',
    'Questions to outside decision points that no cached answer spared, by decision point and outcome: permitted, refused, unanswered, unusable, circuit_open or busy.',
    'pdp',
    'outcome',
  )
  const durations = histogram(
    'sallyport_pdp_duration_seconds',
    'Duration of a question to an outside decision point.',
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
  )
  const rooms = new Map<string, () => number>()
  collect('sallyport_pdp_waiting', 'Questions that wait for room at an outside decision point.', ['pdp'], (gauge) => {
    for (const [pdp, countWaiting] of rooms) gauge.set({ pdp }, countWaiting())
  })
  return {
    countPdpQuestion,
    observePdp: (pdp) => durations.bind({ pdp }),
    watchPdp: (pdp, countWaiting) => {
      rooms.set(pdp, countWaiting)
    },
  }
}

export type IntrospectionMetrics = Readonly<{
  countIntrospection: (issuer: string, outcome: string) => void
  observeIntrospection: ObserveMs
  watchIntrospections: (countWaiting: () => number) => void
}>

export const createIntrospectionMetrics = ({ count, histogram, watchSum }: Meter): IntrospectionMetrics => ({
  countIntrospection: count(
    'sallyport_introspections_total',
    'Opaque tokens that were not cached, by issuer and outcome: active, inactive, refused (by its claims), failed, shed or throttled.',
    'issuer',
    'outcome',
  ),
  observeIntrospection: histogram(
    'sallyport_introspection_duration_seconds',
    'Duration of a question to an issuer about an opaque token.',
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  ).bind({}),
  watchIntrospections: watchSum(
    'sallyport_introspections_waiting',
    'Opaque tokens that wait for a question to their issuer.',
  ),
})
