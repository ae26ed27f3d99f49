import { totalmem } from 'node:os'
import type { Configuration } from './configuration.ts'
import { countWorkers } from './count-workers.ts'

/** The part of a process' memory that it may hold for slow peers, where nothing is configured. */
const heldPart = 1 / 8

/** Less would be no service. */
const leastHeldBytes = 8 * 1024 * 1024

/** The memory that the system grants this process and its siblings: that of its container, or the machine's. */
export function readMemoryLimit(): number {
  // 0 or more than there is: no limit.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.min(constrained, totalmem())
}

/** The part of it that one process of the gateway has. */
export const shareMemory = (configuration: Pick<Configuration, 'workers'>, limitBytes: number): number =>
  Math.floor(limitBytes / countWorkers(configuration))

/** How many bytes one process may hold for slow peers. */
export const limitHeldBytes = ({ limits }: Pick<Configuration, 'limits'>, memoryBytes: number): number =>
  limits.heldBytes ?? Math.max(leastHeldBytes, Math.floor(memoryBytes * heldPart))
