import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { deltaEvent, drawNumbers } from '../test/support/event-streams.ts'
import { until } from '../test/support/gateway.ts'
import { heldBytes, type ProcessFigures } from '../test/support/process-figures.ts'
import { toChunk } from '../test/support/streams.ts'
import { findPercentile } from './statistics.ts'

/** The cost of so many open streams on one way to them, and the delay of their events. */
export type StreamFigures = Readonly<{
  way: string
  streams: number
  /** Bytes for each stream: memory that the process cannot do without, and the parts of it that V8 counts. */
  heldBytes: number
  heapBytes: number
  externalBytes: number
  /** Bytes for each stream, with memory that V8 keeps in reserve. */
  rssBytes: number
  cpuMicrosPerEvent: number
  /** From a client's connecting to its first event, the median of some that come one by one. */
  firstEventMs: number
  medianMs: number
  p99Ms: number
  maxMs: number
}>

/** The growth of the process, for each stream. */
export function divideCost(before: ProcessFigures, now: ProcessFigures, streams: number) {
  const each = (read: (figures: ProcessFigures) => number): number => Math.round((read(now) - read(before)) / streams)
  return {
    heldBytes: each(heldBytes),
    heapBytes: each(({ heapBytes }) => heapBytes),
    externalBytes: each(({ externalBytes }) => externalBytes),
    rssBytes: each(({ rssBytes }) => rssBytes),
  }
}

/** Writes so many events a second, into streams in turn, for so long; resolves to how many, when all have arrived. */
export type Spray = (
  streams: readonly Socket[],
  seconds: number,
  perSecond: number,
  signal: AbortSignal,
) => Promise<number>

/** The pause between events, so long that none waits for the one before it. */
const everyMs = 4

/** Takes the time from an upstream's write to its client's read, by the events' numbers. */
export function createStopwatch(nowMs: () => number) {
  const writtenAtMs: number[] = []
  const tookMs: number[] = []
  return {
    hear: (text: string): void => {
      for (const [, number] of text.matchAll(/"sequence_number":(\d+)/g)) {
        const startedAtMs = writtenAtMs[Number(number)]
        if (startedAtMs !== undefined) tookMs.push(nowMs() - startedAtMs)
      }
    },
    /** Writes events into streams drawn by lot, and resolves when all have arrived. */
    run: async (streams: readonly Socket[], events: number, signal: AbortSignal) => {
      const draw = drawNumbers(7)
      const first = writtenAtMs.length
      tookMs.length = 0
      for (let number = first; number < first + events; number++) {
        const chunk = toChunk(deltaEvent(number))
        writtenAtMs[number] = nowMs()
        streams[Math.floor(draw() * streams.length)]?.write(chunk)
        await sleep(everyMs, undefined, { signal })
      }
      await until(() => tookMs.length === events, 'the last event')
      const [medianMs = 0, p99Ms = 0, maxMs = 0] = [0.5, 0.99, 1].map((share) => roundMs(findPercentile(tookMs, share)))
      return { medianMs, p99Ms, maxMs }
    },
    spray: (async (streams, seconds, perSecond, signal) => {
      const first = writtenAtMs.length
      const turns = (seconds * 1_000) / everyMs
      tookMs.length = 0
      for (let turn = 0; turn < turns; turn++) {
        const due = Math.round(((turn + 1) * seconds * perSecond) / turns)
        for (let count = writtenAtMs.length - first; count < due; count++) {
          const chunk = toChunk(deltaEvent(first + count))
          writtenAtMs[first + count] = nowMs()
          streams[count % streams.length]?.write(chunk)
        }
        await sleep(everyMs, undefined, { signal })
      }
      const events = writtenAtMs.length - first
      await until(() => tookMs.length === events, 'the last event')
      return events
    }) satisfies Spray,
  }
}

const roundMs = (ms: number): number => Math.round(ms * 100) / 100
