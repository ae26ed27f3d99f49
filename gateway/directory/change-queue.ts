import { inOwnTurn } from '../lib/background-turns.ts'
import { TimeSlicer } from '../lib/time-slicer.ts'
import type { Change } from './change.ts'

export type ChangeQueue = Readonly<{
  add: (changes: readonly Change[]) => void
  passed: () => Promise<void>
}>

const sliceMs = 0.5

const mostWaiting = 100_000

const mostLogouts = 1_000

/**
 * Hands changes on in their order, some in each turn of the event loop: one statement may name ten thousand users.
 * `passed` resolves once those of before are handed on, and `onLost` hears of one that could not be. Too many become
 * `everything`, which stands for any of them.
 */
export function createChangeQueue(onChange: (change: Change) => void, onLost: () => void): ChangeQueue {
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
  return {
    add: (changes) => {
      for (const change of changes) slicer.add(change)
      if (slicer.size > mostWaiting) shorten()
    },
    passed: () => new Promise((resolve) => slicer.add({ resolve })),
  }
}

type Passed = Readonly<{ resolve: () => void }>
