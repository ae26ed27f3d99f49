import { guarded } from '../fault/guarded.ts'
import { lengthOf, takeFirst, type WaitingLine } from './line.ts'

const msOfTurnPerWork = 16

const waiting: WaitingLine<() => void> = { items: [], next: 0 }
let isPlanned = false
let plannedAtMs = 0

/**
 * Calls back in a later turn of the event loop, which has one such work. Works that go in slices so delay a request together
 * no more than one of them does. Only a long turn, of many requests, has several, beside which they must still proceed.
 */
export function inOwnTurn(work: () => void): void {
  waiting.items.push(guarded('timer', work))
  plan()
}

export const ownTurn = (): Promise<void> => new Promise(inOwnTurn)

function plan(): void {
  if (isPlanned) return
  isPlanned = true
  plannedAtMs = performance.now()
  setImmediate(nextTurn)
}

const nextTurn = guarded('timer', (): void => {
  isPlanned = false
  const turnMs = performance.now() - plannedAtMs
  const most = Math.max(1, Math.floor(turnMs / msOfTurnPerWork))
  for (let left = Math.min(most, lengthOf(waiting)); left > 0; left -= 1) takeFirst(waiting)?.()
  if (lengthOf(waiting) > 0) plan()
})
