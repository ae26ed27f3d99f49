import { graceRetryMs } from '../../rights/paces.ts'

export type Grace = Readonly<{
  covers: (knownAtMs: number) => boolean
  isOut: () => boolean
  noteFailure: (error: unknown) => boolean
  noteSuccess: () => void
  noteUse: () => void
}>

export type GraceOptions = Readonly<{
  graceMs: number
  monotonicMs: () => number
  isOutage: (error: unknown) => boolean
  onBegin: () => void
  onEnd: (uses: number) => void
}>

export function createGrace({ graceMs, monotonicMs, isOutage, onBegin, onEnd }: GraceOptions): Grace {
  let retryAtMs: number | undefined
  let uses = 0
  return {
    covers: (knownAtMs) => graceMs > 0 && monotonicMs() - knownAtMs <= graceMs,
    isOut: () => {
      if (retryAtMs === undefined) return false
      const nowMs = monotonicMs()
      if (nowMs < retryAtMs) return true
      retryAtMs = nowMs + graceRetryMs
      return false
    },
    noteFailure: (error) => {
      const isOut = isOutage(error)
      if (isOut) retryAtMs = monotonicMs() + graceRetryMs
      return isOut
    },
    noteSuccess: () => {
      retryAtMs = undefined
      if (uses > 0) onEnd(uses)
      uses = 0
    },
    noteUse: () => {
      if (uses === 0) onBegin()
      uses += 1
    },
  }
}
