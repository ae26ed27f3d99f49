import { Worker } from 'node:worker_threads'
import { guarded } from '../fault/guarded.ts'
import { ConfigurationError, type Problem } from './configuration-error.ts'
import type { PolicyReading, PolicyTexts } from './file.ts'

/** What the thread is given. */
export type ReadingTask = Readonly<{ directory: string; texts: PolicyTexts; upstreamNames: ReadonlySet<string> }>

/** What the thread says at its end, once: errors of ours lose their class on the way. */
export type ReadingOutcome = Readonly<
  { readings: ReadonlyMap<string, PolicyReading> } | { problems: readonly Problem[] }
>

const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const script = new URL(`./reading-thread.${extension}`, import.meta.url)

/** As `readSoundFiles`, in a thread that lives as long as this takes; its garbage goes with it. */
export function readSoundFilesApart(task: ReadingTask): Promise<ReadonlyMap<string, PolicyReading>> {
  return new Promise((resolve, reject) => {
    // Nothing of the environment: it holds secrets, and policies read none.
    const thread = new Worker(script, { name: 'policies', workerData: task, env: {} })
    const take = (outcome: ReadingOutcome): void => {
      if ('problems' in outcome) reject(new ConfigurationError(outcome.problems))
      else resolve(outcome.readings)
    }
    thread.once('message', guarded('process', take))
    thread.once('error', reject)
    // Without effect after either of these.
    thread.once('exit', (code) => reject(new Error(`the thread that reads policies ended without a word, by ${code}`)))
  })
}
