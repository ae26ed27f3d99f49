import { guarded } from '../../base/fault/guarded.ts'

/** A busy machine takes this long for the first connection to a database that answers. */
const graceMs = 5_000

/**
 * Tells failures of a start from losses. A part that has not worked yet is not lost. So its failures are told when it
 * has worked once, or after the time that a start takes.
 */
export type StartGrace = Readonly<{
  noteSuccess: () => void
  isOver: () => boolean
  /** Calls back for a loss, now or once the start has taken too long, since some parts tell theirs once. */
  tell: (loss: () => void) => void
}>

export function createStartGrace(monotonicMs: () => number): StartGrace {
  const startedMs = monotonicMs()
  let hasWorked = false
  let waiting: (() => void) | undefined
  const leftMs = (): number => startedMs + graceMs - monotonicMs()
  const isOver = (): boolean => hasWorked || leftMs() <= 0
  const tellLate = (): void => {
    waiting?.()
    waiting = undefined
  }
  return {
    noteSuccess: () => {
      hasWorked = true
      waiting = undefined
    },
    isOver,
    tell: (loss) => {
      if (isOver()) {
        loss()
        return
      }
      if (!waiting) setTimeout(guarded('timer', tellLate), leftMs()).unref()
      waiting = loss
    },
  }
}
