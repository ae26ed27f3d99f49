import type { Change } from './changes.ts'
import { giveUpMs, measureChange } from './measure-change.ts'
import type { Send } from './start-bench.ts'
import { findPercentile } from './statistics.ts'

/** The figures of one kind of change; durations in milliseconds. */
export type Figures = Readonly<{
  change: string
  count: number
  medianMs: number
  p99Ms: number
  maxMs: number
  acceptedAfter: number
}>

export type RunOptions = Readonly<{
  count: number
  /** The replica where a change through the gateway is made. */
  changing: Send
  /** The one that is asked without a pause. */
  watching: Send
  nowMs: () => number
  notify: (sentence: string) => void
  signal: AbortSignal
}>

/** After as many changes that were not felt at all, the rest would only say it again. */
const enoughUnfelt = 3

/** Makes the changes one after the other; at the end asks for all of them once more, at both replicas. */
export async function runChange(kind: Change, options: RunOptions): Promise<Figures> {
  const { count, changing, watching, nowMs, notify, signal } = options
  const subjects = await kind.prepare(count)
  const tookMs: number[] = []
  let acceptedAfter = 0
  for (const { path, headers, change } of subjects) {
    signal.throwIfAborted()
    // Fills the caches of both.
    for (const send of [changing, watching])
      if (!isAccepted(kind, await send({ path, headers }))) throw new Error(`${kind.name}: refused before any change`)
    const ask = async (): Promise<boolean> => isAccepted(kind, await watching({ path, headers }))
    const effect = await measureChange({ ask, change, nowMs })
    tookMs.push(effect.tookMs)
    acceptedAfter += effect.acceptedAfter
    if (tookMs.length % 100 === 0) notify(`${kind.name}: ${tookMs.length} of ${count}`)
    if (tookMs.filter((ms) => ms >= giveUpMs).length === enoughUnfelt) break
  }
  for (const { path, headers } of subjects.slice(0, tookMs.length))
    for (const send of [changing, watching]) if (isAccepted(kind, await send({ path, headers }))) acceptedAfter += 1
  return {
    change: kind.name,
    count: tookMs.length,
    medianMs: roundMs(findPercentile(tookMs, 0.5)),
    p99Ms: roundMs(findPercentile(tookMs, 0.99)),
    maxMs: roundMs(findPercentile(tookMs, 1)),
    acceptedAfter,
  }
}

/** Any other answer says nothing about rights: there is nothing to measure then. */
function isAccepted({ name, refusals }: Change, status: number): boolean {
  if (status === 200) return true
  if (refusals.includes(status)) return false
  throw new Error(`${name}: answered with ${status}`)
}

const roundMs = (ms: number): number => Math.round(ms * 100) / 100
