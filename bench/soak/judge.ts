import { findPercentile } from '../statistics.ts'

/** The resources of a gateway at one moment, in milliseconds since the begin. */
export type Sample = Readonly<{ atMs: number; rssBytes: number; descriptors: number }>

export type SoakFigures = Readonly<{
  requests: number
  unexpected: number
  reloads: number
  baselineAtMinute: number
  rssBaselineBytes: number
  rssEndBytes: number
  rssRatio: number
  descriptorsBaseline: number
  descriptorsEnd: number
}>

export type SoakLimits = Readonly<{ rssRatio: number }>

/** More or less is how many streams happen to be open. */
const spareDescriptors = 20

/** The length of one sample; single readings jump by the last work of the garbage collector. */
const momentShare = 1 / 30

/** Middles of the readings around two moments: when it has warmed up, and at the end. */
export function compareMoments(samples: readonly Sample[], baselineAtMs: number, endMs: number) {
  const lengthMs = endMs * momentShare
  const middle = (fromMs: number, read: (sample: Sample) => number): number =>
    findPercentile(samples.filter(({ atMs }) => atMs >= fromMs && atMs <= fromMs + lengthMs).map(read), 0.5)
  const at = (fromMs: number) => ({
    rssBytes: middle(fromMs, ({ rssBytes }) => rssBytes),
    descriptors: middle(fromMs, ({ descriptors }) => descriptors),
  })
  return { baseline: at(baselineAtMs), end: at(endMs - lengthMs) }
}

/** Figures above their limit, as sentences. */
export function findExcesses(figures: SoakFigures, limits: SoakLimits): readonly string[] {
  const { unexpected, rssRatio, descriptorsBaseline, descriptorsEnd } = figures
  const mostDescriptors = Math.max(descriptorsBaseline + spareDescriptors, Math.round(descriptorsBaseline * 1.1))
  return [
    ...(unexpected > 0 ? [`${unexpected} answers were not what they had to be`] : []),
    // An unreadable figure is a failure.
    ...(rssRatio <= limits.rssRatio
      ? []
      : [`memory grew to ${rssRatio.toFixed(3)} of what it was, above ${limits.rssRatio}`]),
    ...(descriptorsEnd <= mostDescriptors ? [] : [`descriptors grew from ${descriptorsBaseline} to ${descriptorsEnd}`]),
  ]
}
