import type { Engine, Listener, ListenerOptions } from '../engine/engine.ts'
import { createNodeEngine } from '../engine/node/engine.ts'
import { type AdminPages, createAdmin } from '../observe/admin.ts'
import { createLog, type Log } from '../observe/log.ts'
import { createMetrics, type Metrics } from '../observe/metrics.ts'
import type { Configuration } from './configuration.ts'

/** What a process has of its own, whether it is a whole gateway, a worker or the primary of workers. */
export type Equipment = Readonly<{ log: Log; metrics: Metrics; engine: Engine }>

export const equipProcess = ({ log }: Configuration, worker?: number): Equipment => ({
  log: createLog(log.level, worker),
  metrics: createMetrics(),
  engine: createNodeEngine(),
})

/** What every listener has in common. */
export const readListenerOptions = (
  { timeouts }: Configuration,
  { log, metrics }: Equipment,
): Omit<ListenerOptions, 'host' | 'port'> => ({
  headersTimeoutMs: timeouts.headersMs,
  bodyIdleTimeoutMs: timeouts.bodyIdleMs,
  onUnparsed: (reason) => {
    metrics.countUnparsed(reason)
    log.info({ reason }, 'unparsed request')
  },
})

/** Opens the admin listener; its `close` breaks what is still open on it, since nobody waits for a probe. */
export async function openAdmin(
  configuration: Configuration,
  equipment: Equipment,
  pages: AdminPages,
): Promise<Listener> {
  const options = { ...configuration.listeners.admin, ...readListenerOptions(configuration, equipment) }
  const listener = await equipment.engine.listen(options, createAdmin(pages))
  const close = (): Promise<void> => {
    const closed = listener.close()
    listener.destroy()
    return closed
  }
  return { ...listener, close }
}
