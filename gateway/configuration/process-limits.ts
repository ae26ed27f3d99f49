import { readFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import type { Configuration, RequestListenerSettings } from './configuration.ts'

type Name = keyof Configuration['listeners']

export type ConnectionLimits = Readonly<Record<Name | 'upstreams', number>>

const usualMost: Readonly<Record<Name, number>> = { public: 10_000, decision: 10_000, admin: 100, signals: 100 }

const connectionsPart = 1 / 2

/** Measured memory of a waiting request with its upstream connection, plus a third. */
const connectionBytes = { plain: 16 * 1024, tls: 48 * 1024 }

/** Descriptors of listeners, files, the event loop, issuers, Redis and the database listener. */
const ownDescriptors = 64

/** Fewer could not serve a probe, a scrape and a person at the same time. */
const leastConnections = 4

/** Undefined on systems without /proc. Node has already raised the soft limit. */
export function readDescriptorLimit(): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? undefined : Number(soft)
  } catch {
    return undefined
  }
}

/**
 * Reserves descriptors for the listeners of operators and issuers and for the database, which clients must not exhaust.
 * Each public connection may need one more to an upstream.
 */
export function limitConnections(
  { listeners, database }: Pick<Configuration, 'listeners' | 'database'>,
  descriptors = Number.POSITIVE_INFINITY,
  memoryBytes = Number.POSITIVE_INFINITY,
): ConnectionLimits {
  const affordable = (name: Name): number => {
    const { tls }: Partial<RequestListenerSettings> = listeners[name] ?? {}
    return atLeastFew((memoryBytes * connectionsPart) / connectionBytes[tls ? 'tls' : 'plain'])
  }
  const want = (name: Name): number => listeners[name]?.maxConnections ?? Math.min(usualMost[name], affordable(name))
  const left = Math.max(0, descriptors - ownDescriptors - (database?.poolSize ?? 0))
  const admin = Math.min(want('admin'), atLeastFew(left / 8))
  const signals = listeners.signals ? Math.min(want('signals'), atLeastFew(left / 16)) : 0
  const rest = left - admin - signals
  const decision = Math.min(want('decision'), atLeastFew(Math.max(rest / 3, rest - 2 * want('public'))))
  const open = Math.min(want('public'), atLeastFew((rest - decision) / 2))
  return { public: open, decision, admin, signals, upstreams: Math.max(leastConnections, rest - open - decision) }
}

const atLeastFew = (count: number): number => Math.max(leastConnections, Math.floor(count))

export const findShortages = (
  { listeners }: Pick<Configuration, 'listeners'>,
  limits: ConnectionLimits,
): readonly Readonly<{ listener: Name; maxConnections: number; wanted: number }>[] =>
  (['public', 'decision', 'admin', 'signals'] as const)
    .filter((listener) => listeners[listener])
    .map((listener) => ({
      listener,
      maxConnections: limits[listener],
      wanted: listeners[listener]?.maxConnections ?? Math.min(usualMost[listener], 1_000),
    }))
    .filter(({ maxConnections, wanted }) => maxConnections < wanted)

const waitingPart = 1 / 4

/** Each such request holds a connection of its client and one to its upstream. */
export const limitWaiting = (
  { limits }: Pick<Configuration, 'limits'>,
  { public: clients, upstreams }: Pick<ConnectionLimits, 'public' | 'upstreams'>,
): number => limits.waitingPerOrganization ?? atLeastFew(Math.min(clients, upstreams) * waitingPart)

const heldPart = 1 / 8

/** Room for 512 peers that each fill a high-water mark of 16 KiB; with less, ordinary slow clients would be cut. */
const leastHeldBytes = 8 * 1024 * 1024

/** The memory limit of the container, or the machine's memory. Sibling processes share it. */
export function readMemoryLimit(): number {
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.min(constrained, totalmem())
}

export const shareMemory = (configuration: Pick<Configuration, 'workers'>, limitBytes: number): number =>
  Math.floor(limitBytes / countWorkers(configuration))

export const limitHeldBytes = ({ limits }: Pick<Configuration, 'limits'>, memoryBytes: number): number =>
  limits.heldBytes ?? Math.max(leastHeldBytes, Math.floor(memoryBytes * heldPart))

export const countWorkers = ({ workers }: Pick<Configuration, 'workers'>): number =>
  workers === 'auto' ? availableParallelism() : workers
