import { setTimeout as sleep } from 'node:timers/promises'
import { inOwnTurn } from '../base/lib/background-turns.ts'
import { TimeSlicer } from '../base/lib/time-slicer.ts'
import { everythingEveryMs, sliceMs } from '../rights/budget.ts'
import { type Change, isUnreadable, parseChanges } from './change.ts'

export type ChangeQueue = Readonly<{
  hear: (message: string) => void
  add: (changes: readonly Change[]) => void
  passed: () => Promise<void>
}>

/** Ten statements that name ten thousand users each; then one `everything` stands for them, and memory has a bound. */
const mostWaiting = 100_000

/** As many as `run/boot/logouts.ts` verifies; `everything` stands for none, and the database tells of them too. */
const mostLogouts = 1_000

/**
 * Hands changes on in their order, some in each turn of the event loop: one statement may name ten thousand users.
 * `passed` resolves once those of before are handed on, and `onLost` hears of one that could not be. Too many become
 * `everything`, which stands for any of them.
 */
export function createChangeQueue(
  onChange: (change: Change) => void,
  onLost: () => void,
  onUnreadable: () => void = () => undefined,
): ChangeQueue {
  const take = (item: Change | Passed): void => {
    if ('kind' in item) onChange(item)
    else item.resolve()
  }
  const slicer = new TimeSlicer(take, onLost, undefined, () => sliceMs, inOwnTurn)
  const shorten = (): void => {
    const waiting = slicer.clear()
    slicer.add({ kind: 'everything' })
    let logouts = 0
    for (const item of waiting)
      if (!('kind' in item) || (item.kind === 'logout-token' && logouts++ < mostLogouts)) slicer.add(item)
  }
  const everything = createPace(() => slicer.add({ kind: 'everything' }))
  const add = (changes: readonly Change[]): void => {
    for (const change of changes) {
      if (change.kind === 'everything') everything.add()
      else slicer.add(change)
    }
    if (slicer.size > mostWaiting) shorten()
  }
  return {
    hear: (message) => {
      const changes = parseChanges(message)
      if (isUnreadable(changes)) onUnreadable()
      add(changes)
    },
    add,
    passed: async () => {
      await everything.passed()
      await new Promise<void>((resolve) => slicer.add({ resolve }))
    },
  }
}

/** Does the work at once, then at most every 100 ms, and for the last time that it was asked always. */
function createPace(work: () => void) {
  let lastMs = Number.NEGATIVE_INFINITY
  let waiting: Promise<void> | undefined
  const run = (): void => {
    lastMs = performance.now()
    work()
  }
  return {
    add: (): void => {
      if (waiting) return
      const leftMs = lastMs + everythingEveryMs - performance.now()
      if (leftMs <= 0) {
        run()
        return
      }
      waiting = sleep(leftMs, undefined, { ref: false }).then(() => {
        waiting = undefined
        run()
      })
    },
    passed: async (): Promise<void> => waiting,
  }
}

type Passed = Readonly<{ resolve: () => void }>
