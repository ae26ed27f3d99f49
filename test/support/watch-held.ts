import { setTimeout as sleep } from 'node:timers/promises'
import { readFigures } from './process-figures.ts'
import type { Replica } from './replicas.ts'

/**
 * The most that a gateway held in V8's heap and in buffers while `work` ran, without garbage, in bytes. Its pages would
 * say more of when V8 and the C library give memory back.
 */
export async function watchHeld(replica: Replica, work: () => Promise<unknown>): Promise<number> {
  let highest = 0
  let isOver = false
  const look = async (): Promise<void> => {
    while (!isOver) {
      const { heapBytes, externalBytes } = await readFigures(replica)
      highest = Math.max(highest, heapBytes + externalBytes)
      await sleep(50)
    }
  }
  const looking = look()
  try {
    await work()
  } finally {
    isOver = true
    await looking
  }
  return highest
}
