import { guarded } from '../base/fault/guarded.ts'
import { followMs, followRestMs, readAgainMs } from '../rights/budget.ts'
import type { Freshness } from './cache/freshness.ts'

export type FollowOptions = Readonly<{
  read: () => Promise<void>
  isNeeded: () => boolean
  knownAt: Freshness['knownAt']
  monotonicMs: () => number
  onFailed: (error: unknown) => void
}>

export type RowFollower = Readonly<{ look: () => void; stop: () => void }>

export function followRows({ read, isNeeded, knownAt, monotonicMs, onFailed }: FollowOptions): RowFollower {
  let readAtMs = Number.NEGATIVE_INFINITY
  let isReading = false
  let isTold = false
  let isStopped = false
  const readAll = async (): Promise<void> => {
    isReading = true
    try {
      while (isTold && !isStopped) {
        isTold = false
        const askedAtMs = monotonicMs()
        await read()
        readAtMs = askedAtMs
        // Any login may notify, and a flood must not keep a connection busy.
        await rest()
      }
    } catch (error) {
      readAtMs = Number.NEGATIVE_INFINITY
      onFailed(error)
    } finally {
      isReading = false
    }
  }
  const look = (): void => {
    isTold = true
    if (!isReading && !isStopped) readAll().catch(onFailed)
  }
  const timer = setInterval(
    guarded('timer', () => {
      if (!isReading && isNeeded() && monotonicMs() - knownAt(readAtMs) > readAgainMs) look()
    }),
    followMs,
  )
  timer.unref()
  look()
  return {
    look,
    stop: () => {
      isStopped = true
      clearInterval(timer)
    },
  }
}

const rest = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, followRestMs).unref())
