import { parentPort, workerData } from 'node:worker_threads'
import { ConfigurationError } from './configuration-error.ts'
import { readSoundFiles } from './load.ts'
import type { ReadingOutcome, ReadingTask } from './read-files-in-thread.ts'

parentPort?.postMessage(read(workerData))

function read({ directory, texts, upstreams }: ReadingTask): ReadingOutcome {
  try {
    return { readings: readSoundFiles(directory, texts, upstreams) }
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return { problems: error.problems }
  }
}
