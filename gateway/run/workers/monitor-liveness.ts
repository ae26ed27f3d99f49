import type { WorkerProcess } from './worker-process.ts'

/** One late answer may be a long pause of the collector; three in a row span the whole silence. */
const missesAllowed = 3

/** Liveness probes see only the primary, so a worker with a blocked event loop would stay. */
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

const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
