import type { Engine, Listener, ListenerOptions } from '../engine/engine.ts'
import { createNodeEngine } from '../engine/node/engine.ts'
import { type AdminPages, createAdmin } from '../observe/admin.ts'
import { createLog, describeBug, type ProcessLog } from '../observe/log.ts'
import { createMetrics, type Metrics } from '../observe/metrics.ts'
import type { Configuration } from './configuration.ts'

/** What a process has of its own, whether it is a whole gateway, a worker or the primary of workers. */
export type Equipment = Readonly<{ log: ProcessLog; metrics: Metrics; engine: Engine }>

export const equipProcess = ({ log, audit }: Configuration, worker?: number): Equipment => ({
  log: createLog(log.level, worker, worker !== undefined || audit.sink === 'stdout'),
  metrics: createMetrics(),
  engine: createNodeEngine(),
})

/** The last line of a process that does not know any more what it does. */
export const reportFaultTo =
  (log: ProcessLog) =>
  (error: unknown): void =>
    log.fatal({ error: describeBug(error) }, 'uncaught: this process finishes what is under way, and ends')

/** How a listener is opened; `onRefused` is told what could not be read, where somebody else counts it too. */
export const readListenerOptions = (
  name: keyof Configuration['listeners'],
  { listeners, timeouts }: Configuration,
  { log, metrics }: Equipment,
  onRefused: ListenerOptions['onUnparsed'] = () => undefined,
): ListenerOptions => ({
  ...listeners[name],
  headersTimeoutMs: timeouts.headersMs,
  bodyIdleTimeoutMs: timeouts.bodyIdleMs,
  onFault: (error) => log.error({ error: describeBug(error) }, 'a callback of a request failed'),
  onUnparsed: (refusal) => {
    const { code, requestId, peerAddress } = refusal
    onRefused(refusal)
    metrics.countUnparsed(code)
    log.info({ requestId, clientAddress: peerAddress, reason: code }, 'unparsed request')
  },
})

/** Opens the admin listener; its `close` breaks what is still open on it, since nobody waits for a probe. */
export async function openAdmin(
  configuration: Configuration,
  equipment: Equipment,
  pages: AdminPages,
): Promise<Listener> {
  const options = readListenerOptions('admin', configuration, equipment)
  const listener = await equipment.engine.listen(options, createAdmin(pages))
  const close = (): Promise<void> => {
    const closed = listener.close()
    listener.destroy()
    return closed
  }
  return { ...listener, close }
}
