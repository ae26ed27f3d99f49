import { Worker } from 'node:worker_threads'
import { guarded } from '../base/fault/guarded.ts'
import { ConfigurationError, type Problem } from './configuration-error.ts'
import type { PolicyReading, PolicyTexts } from './file.ts'
import type { KnownUpstreams } from './known-upstreams.ts'

export type ReadingTask = Readonly<{ directory: string; texts: PolicyTexts; upstreams: KnownUpstreams }>

/** Result of the thread. Problems are plain data, because an error loses its class between threads. */
export type ReadingOutcome = Readonly<
  { readings: ReadonlyMap<string, PolicyReading> } | { problems: readonly Problem[] }
>

const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
const script = new URL(`./reading-thread.${extension}`, import.meta.url)

export function readSoundFilesInThread(task: ReadingTask): Promise<ReadonlyMap<string, PolicyReading>> {
  return new Promise((resolve, reject) => {
    // The environment holds secrets, and policies read none of it.
    const thread = new Worker(script, { name: 'policies', workerData: task, env: {} })
    const take = (outcome: ReadingOutcome): void => {
      if ('problems' in outcome) reject(new ConfigurationError(outcome.problems))
      else resolve(outcome.readings)
    }
    thread.once('message', guarded('process', take))
    thread.once('error', reject)
    thread.once('exit', (code) =>
      reject(new Error(`policy reader thread exited with code ${code} before it returned a result`)),
    )
  })
}
