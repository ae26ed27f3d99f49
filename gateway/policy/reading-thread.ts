// Reads policy files, says what they hold, and ends: the other end of `readPolicyFilesApart`.
import { parentPort, workerData } from 'node:worker_threads'
import { ConfigurationError } from './configuration-error.ts'
import { readPolicyFiles } from './read-files.ts'
import type { ReadingOutcome, ReadingTask } from './read-files-apart.ts'

parentPort?.postMessage(read(workerData))

function read({ directory, texts }: ReadingTask): ReadingOutcome {
  try {
    return { readings: readPolicyFiles(directory, texts) }
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return { problems: error.problems }
  }
}
