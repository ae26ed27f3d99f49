import type { WorkerProcess } from './worker-process.ts'

/** So many questions in a row without an answer are silence. */
const missesAllowed = 3

/**
 * Asks a worker now and then for as long as it lives, and calls back when it has been silent for `silenceMs`. Liveness
 * probes see the primary alone: a worker whose event loop stands still would stay for ever.
 */
export async function monitorLiveness(worker: WorkerProcess, silenceMs: number, onSilent: () => void): Promise<void> {
  let isGone = false
  void worker.ended.then(() => {
    isGone = true
  })
  const roundMs = silenceMs / missesAllowed
  let misses = 0
  while (!isGone && misses < missesAllowed) {
    const isHeard = await worker.isHeard(roundMs)
    misses = isHeard ? 0 : misses + 1
    if (isHeard) await pause(roundMs)
  }
  if (!isGone) onSilent()
}

/** Nobody waits for it at the end. */
const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
