import { readFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import type { Configuration, RequestListenerSettings } from './configuration.ts'

type Name = keyof Configuration['listeners']

/** How many connections of each kind this process may have open at once. */
export type ConnectionLimits = Readonly<Record<Name | 'upstreams', number>>

/** Where nothing is configured: more than one process serves well. */
const generous: Readonly<Record<Name, number>> = { public: 10_000, decision: 10_000, admin: 100 }

/** The part of a process' memory that the connections of clients may take by being there, where nothing is configured. */
const connectionsPart = 1 / 2

/** Memory of one connection while its request waits, with its upstream's: measured, and a third more. */
const connectionBytes = { plain: 16 * 1024, tls: 48 * 1024 }

/** Whatever else a process has open: its listeners, files, the event loop's own, issuers, Redis, the listening client. */
const ownDescriptors = 64

/** Fewer would be no service. */
const fewest = 4

/** How many descriptors the system grants this process; undefined where it does not tell. Node has raised it already. */
export function readDescriptorLimit(): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? undefined : Number(soft)
  } catch {
    return undefined // there is no /proc
  }
}

/**
 * Shares the descriptors out before clients can: what is left for the admin listener and the database must not be for
 * the taking. Each connection of the public listener may need another one to an upstream.
 */
export function limitConnections(
  { listeners, database }: Pick<Configuration, 'listeners' | 'database'>,
  descriptors = Number.POSITIVE_INFINITY,
  memoryBytes = Number.POSITIVE_INFINITY,
): ConnectionLimits {
  const affordable = (name: Name): number => {
    const { tls }: RequestListenerSettings = listeners[name]
    return atLeastFew((memoryBytes * connectionsPart) / connectionBytes[tls ? 'tls' : 'plain'])
  }
  const want = (name: Name): number => listeners[name].maxConnections ?? Math.min(generous[name], affordable(name))
  const left = Math.max(0, descriptors - ownDescriptors - database.poolSize)
  const admin = Math.min(want('admin'), atLeastFew(left / 8))
  const rest = left - admin
  // As many of each; what one of the two does not want is the other's.
  const decision = Math.min(want('decision'), atLeastFew(Math.max(rest / 3, rest - 2 * want('public'))))
  const open = Math.min(want('public'), atLeastFew((rest - decision) / 2))
  return { public: open, decision, admin, upstreams: Math.max(fewest, rest - open - decision) }
}

const atLeastFew = (count: number): number => Math.max(fewest, Math.floor(count))

/** The listeners that get less than they were promised, or than is of much use. */
export const findShortages = (
  { listeners }: Pick<Configuration, 'listeners'>,
  limits: ConnectionLimits,
): readonly Readonly<{ listener: Name; maxConnections: number; wanted: number }>[] =>
  (['public', 'decision', 'admin'] as const)
    .map((listener) => ({
      listener,
      maxConnections: limits[listener],
      wanted: listeners[listener].maxConnections ?? Math.min(generous[listener], 1_000),
    }))
    .filter(({ maxConnections, wanted }) => maxConnections < wanted)

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

/** How many processes the configuration wants on this machine. */
export const countWorkers = ({ workers }: Pick<Configuration, 'workers'>): number =>
  workers === 'auto' ? availableParallelism() : workers
