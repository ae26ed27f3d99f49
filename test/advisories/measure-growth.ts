import type { HostileText } from '../support/hostile-texts.ts'
import type { Reader } from '../support/readers.ts'

/** Processor time of one reading, in milliseconds: on a busy machine the clock says what others do. */
function measureMs({ read }: Reader, text: string, turns: number): number {
  const started = process.cpuUsage()
  for (let turn = 0; turn < turns; turn++) {
    try {
      read(text)
    } catch {
      // A refusal is an answer; only its time counts.
    }
  }
  const { user, system } = process.cpuUsage(started)
  return (user + system) / 1_000 / turns
}

/** Short readings are repeated until one sweep of the garbage collector more or less makes no difference. */
const sampleMs = 10
const mostSamples = 7

/** The least of several samples: caches and a collector that others slow down only add to it. */
const measureOften = (reader: Reader, text: string, samples: number): number => {
  const onceMs = measureMs(reader, text, 1)
  const turns = Math.max(1, Math.min(2_000, Math.ceil(sampleMs / Math.max(onceMs, 0.001))))
  // The first reading is a sample by itself where it takes as long as one.
  const first = turns === 1 ? [onceMs] : []
  const others = Array.from({ length: samples - first.length }, () => measureMs(reader, text, turns))
  return Math.min(...first, ...others)
}

/** The exponent of growth from n to 4n: 1 is linear, 2 quadratic. */
function measureSlope(reader: Reader, text: HostileText, samples: number): number {
  const [small, large] = [4, 1].map((part) =>
    measureOften(reader, text.write(Math.floor(reader.largest / part)), samples),
  ) as [number, number]
  return Math.log2(large / Math.max(small, 1e-6)) / 2
}

const plain = 1.1
const steepest = 1.3

/** Below these times the growth does not matter: 5 ms for 64 KiB, and 160 ms for a file. */
const harmlessMs = ({ largest, isOfFiles }: Reader): number =>
  isOfFiles ? (largest / 65_536) * 160 : Math.min(10, (largest / 65_536) * 5)

/** The first text that takes a reader more than linear time, or overflows its stack; undefined for none. */
export function findHarm(reader: Reader, texts: readonly HostileText[]): string | undefined {
  for (const text of texts) {
    const written = text.write(reader.largest)
    const started = process.cpuUsage()
    if (isDeep(reader, written)) return `${text.name}: overflows the stack`
    const { user, system } = process.cpuUsage(started)
    if ((user + system) / 1_000 > harmlessMs(reader) && isSteep(reader, text)) return `${text.name}: grows too fast`
  }
  return undefined
}

/** A suspect is measured again before it is believed: the machine has other work, and cold code is slow once. */
function isSteep(reader: Reader, text: HostileText): boolean {
  const written = text.write(reader.largest)
  if (Math.min(measureMs(reader, written, 1), measureMs(reader, written, 1)) <= harmlessMs(reader)) return false
  // One look is enough for what is plainly linear.
  if (measureSlope(reader, text, 1) <= plain) return false
  for (let again = 0; again < 4; again++) if (measureSlope(reader, text, mostSamples) <= steepest) return false
  return true
}

/** Whether reading overflows the stack: a depth that the text decides. */
function isDeep({ read }: Reader, text: string): boolean {
  try {
    read(text)
    return false
  } catch (error) {
    return error instanceof RangeError && /call stack/.test(error.message)
  }
}

/** The text that takes a reader the most processor time at its largest, and that time: the least of several readings. */
export function measureSlowest(reader: Reader, texts: readonly HostileText[]): Readonly<{ ms: number; text: string }> {
  const once = texts.map((text) => ({ text, ms: measureMs(reader, text.write(reader.largest), 1) }))
  const worst = once.sort((left, right) => right.ms - left.ms).slice(0, 5)
  const often = worst.map(({ text }) => {
    const written = text.write(reader.largest)
    return {
      text: text.name,
      ms: Math.min(...Array.from({ length: mostSamples }, () => measureMs(reader, written, 1))),
    }
  })
  return often.reduce((most, next) => (next.ms > most.ms ? next : most))
}
