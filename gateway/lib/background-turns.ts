import { guarded } from '../fault/guarded.ts'
import { lengthOf, takeFirst, type WaitingLine } from './line.ts'

const waiting: WaitingLine<() => void> = { items: [], next: 0 }
let isPlanned = false

/**
 * Calls back in a turn of the event loop that no other caller has. Long works that go in slices so delay a request
 * together no more than one of them does.
 */
export function inOwnTurn(work: () => void): void {
  waiting.items.push(work)
  plan()
}

export const ownTurn = (): Promise<void> => new Promise(inOwnTurn)

function plan(): void {
  if (isPlanned) return
  isPlanned = true
  setImmediate(nextTurn)
}

const nextTurn = guarded('timer', (): void => {
  isPlanned = false
  const work = takeFirst(waiting)
  if (lengthOf(waiting) > 0) plan()
  work?.()
})
