import { Gauge, type Registry } from 'prom-client'
import { createBoundHistogram, type ObserveMs } from './bound-histogram.ts'
import { createTallies } from './fast-counter.ts'

export type DecisionPointMetrics = Readonly<{
  countPdpQuestion: (pdp: string, outcome: string) => void
  observePdp: (pdp: string) => ObserveMs
  watchPdp: (pdp: string, countWaiting: () => number) => void
}>

export function createDecisionPointMetrics(registers: Registry[]): DecisionPointMetrics {
  const questions = createTallies(
    {
      name: 'sallyport_pdp_questions_total',
      help: 'Questions to outside decision points that no cached answer spared, by decision point and outcome: permitted, refused, unanswered, unusable, circuit_open or busy.',
      labelNames: ['pdp', 'outcome'],
    },
    registers,
  )
  const durations = createBoundHistogram({
    name: 'sallyport_pdp_duration_seconds',
    help: 'Duration of a question to an outside decision point.',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  })
  const rooms = new Map<string, () => number>()
  new Gauge({
    name: 'sallyport_pdp_waiting',
    help: 'Questions that wait for room at an outside decision point.',
    labelNames: ['pdp'],
    registers,
    collect() {
      for (const [pdp, countWaiting] of rooms) this.set({ pdp }, countWaiting())
    },
  })
  return {
    countPdpQuestion: (pdp, outcome) => {
      questions(pdp, outcome).count += 1
    },
    observePdp: (pdp) => durations.bind({ pdp }),
    watchPdp: (pdp, countWaiting) => {
      rooms.set(pdp, countWaiting)
    },
  }
}
