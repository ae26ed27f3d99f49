import { drawNumbers } from '../../test/support/event-streams.ts'
import { findPercentile } from '../statistics.ts'

/** A ratio, and the two figures between which it lies in 95 of 100 such measurements. */
export type Estimate = Readonly<{ value: number; low: number; high: number }>

/** The verdict on a row; `named` is worse, but by no more than was announced. */
export type Verdict = 'kept' | 'named' | 'worse'

/** The most that a row may be worse, beyond the difference of one build from itself. */
const allowedPercent = 3

const resamples = 10_000

/**
 * The geometric mean of ratios, one for each restart, and its bootstrap: restarts are what differs, so they are what is
 * drawn again. The draws are the same in every run.
 */
export function estimate(ratios: readonly number[]): Estimate {
  const logarithms = ratios.map(Math.log)
  const draw = drawNumbers(1)
  const drawOne = (): number => logarithms[Math.floor(draw() * logarithms.length)] ?? Number.NaN
  const means = Array.from({ length: resamples }, () => findMean(logarithms.map(drawOne)))
  return {
    value: Math.exp(findMean(logarithms)),
    low: Math.exp(findPercentile(means, 0.025)),
    high: Math.exp(findPercentile(means, 0.975)),
  }
}

/** The largest difference of a build from itself: the end of its estimate that is farther from 1. */
export const findSpread = ({ low, high }: Estimate): number => Math.max(high - 1, 1 - low)

/** Judges a ratio by the spread of one build beside itself; `namedPercent` is what a row was announced to cost. */
export function judge({ value }: Estimate, spread: number, namedPercent = allowedPercent): Verdict {
  if (value <= 1 + allowedPercent / 100 + spread) return 'kept'
  return value <= 1 + namedPercent / 100 + spread ? 'named' : 'worse'
}

const findMean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
