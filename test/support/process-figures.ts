import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { loadavg } from 'node:os'
import type { Replica } from './replicas.ts'

/** The resources of a gateway, by the system's count and its own. */
export type ProcessFigures = Readonly<{
  rssBytes: number
  /**
   * The part of it that V8 keeps for what comes: its young generation and the gaps between what lives. Tens of megabytes
   * more or less, by how busy the process was of late, and gone after a while without work.
   */
  spareBytes: number
  /** V8's heap that is in use, without garbage. */
  heapBytes: number
  /** Outside of it, but known to V8: buffers above all. */
  externalBytes: number
  descriptors: number
}>

/** The environment of a replica that can be asked for its figures. */
export const measurable = { NODE_OPTIONS: `--import ${new URL('./tell-memory.js', import.meta.url)}` }

/** The message that tell-memory.js sends. */
type Told = Readonly<{ memory: NodeJS.MemoryUsage; spareBytes: number }>

/** Has the garbage collected, then reads. */
export async function readFigures(replica: Replica): Promise<ProcessFigures> {
  const { memory, spareBytes } = (await replica.ask('memory')) as Told
  return {
    rssBytes: readRss(replica.pid),
    spareBytes,
    heapBytes: memory.heapUsed,
    externalBytes: memory.external,
    descriptors: countDescriptors(replica.pid),
  }
}

/** The number of strings in the heap that hold a text within their first kilobyte, after a collection. */
export const countStrings = async (replica: Replica, text: string): Promise<number> =>
  (await replica.ask(`count ${Buffer.from(text).toString('hex')}`)) as number

/** The figures of a process about which only the system can be asked. */
export const readSystemFigures = (pid: number): ProcessFigures => ({
  rssBytes: readRss(pid),
  spareBytes: 0,
  heapBytes: 0,
  externalBytes: 0,
  descriptors: countDescriptors(pid),
})

const quietMs = 1_000

/** Waits until it gives nothing back any more: what was closed is let go of a little later. */
export async function readSettledFigures(replica: Replica): Promise<ProcessFigures> {
  let lowest = await readFigures(replica)
  for (let quietSinceMs = performance.now(); performance.now() - quietSinceMs < quietMs; ) {
    await new Promise((resolve) => setTimeout(resolve, 200))
    const figures = await readFigures(replica)
    if (heldBytes(figures) > heldBytes(lowest) * 0.99 && figures.descriptors >= lowest.descriptors) continue
    lowest = figures
    quietSinceMs = performance.now()
  }
  return lowest
}

/** The memory that a process needs, of all that it occupies. */
export const heldBytes = ({ rssBytes, spareBytes }: ProcessFigures): number => rssBytes - spareBytes

/** The memory that a process occupies now, garbage included. */
export function readRss(pid: number): number {
  const [, kibibytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kibibytes) * 1024
}

/** Linux 6.2 and later say how many there are; earlier ones have to list them, which takes milliseconds of thousands. */
export function countDescriptors(pid: number): number {
  const directory = `/proc/${pid}/fd`
  return statSync(directory).size || readdirSync(directory).length
}

/** The reason why a process cannot be measured here while each side has so many sockets; undefined where it can. */
export function findMeasureLack(sockets = 0): string | undefined {
  if (!existsSync('/proc/self/status')) return 'there is no /proc to read memory and descriptors from'
  const limit = readDescriptorLimit()
  const wanted = sockets + 200
  return limit < wanted ? `the limit of open files is ${limit}, and ${wanted} are wanted (ulimit -n)` : undefined
}

/** The gateway has the same limit: Node raises the soft limit to the hard one at its start. */
function readDescriptorLimit(): number {
  const [, soft = ''] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  return soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft)
}

/** The load of the machine, to be printed beside a figure. */
export const readLoad = (): number => Math.round((loadavg()[0] ?? 0) * 10) / 10
