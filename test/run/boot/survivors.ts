import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (options?: Readonly<{ type: 'minor' | 'major' }>) => void

/** Members that are here at the same time, and how many numbers each has. */
const present = 64
const numbers = 512

/**
 * MiB left of members that came and went since the last full collection, after a scavenge. `come` takes a member in,
 * and returns the function that lets it leave.
 */
export async function measureSurvivors(come: (member: object) => () => unknown): Promise<number> {
  const leaving: (() => unknown)[] = []
  const pass = async (count: number): Promise<void> => {
    for (let index = 0; index < count; index += 1) {
      leaving.push(come(Array.from({ length: numbers }, () => index)))
      if (leaving.length > present) leaving.shift()?.()
      // Lets pending work for a member end.
      await undefined
    }
  }
  await pass(1_000)
  collect({ type: 'major' })
  await pass(1_000)
  // The present objects grow old.
  collect({ type: 'minor' })
  collect({ type: 'minor' })
  const before = readUsed()
  await pass(1_000)
  collect({ type: 'minor' })
  return (readUsed() - before) / 2 ** 20
}

const readUsed = (): number =>
  getHeapSpaceStatistics()
    .filter(({ space_name }) => space_name === 'new_space' || space_name === 'old_space')
    .reduce((sum, { space_used_size }) => sum + space_used_size, 0)
