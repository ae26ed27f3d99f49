import { availableParallelism } from 'node:os'
import type { Configuration } from './configuration.ts'

/** How many processes the configuration wants on this machine. */
export const countWorkers = ({ workers }: Pick<Configuration, 'workers'>): number =>
  workers === 'auto' ? availableParallelism() : workers
