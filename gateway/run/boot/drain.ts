import { guarded } from '../../base/fault/guarded.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import type { Listener } from '../../http/engine.ts'
import type { ProcessLog } from '../../observe/log/log.ts'
import type { Relaying } from '../../stages/relay/relay.ts'
import type { FilesWatcher } from '../reload/pem-files.ts'
import type { InFlightRequests } from './in-flight-requests.ts'
import type { Services } from './services.ts'

export type Drain = (options?: Readonly<{ delayMs?: number; timeoutMs?: number }>) => Promise<void>

/** A client takes the last event within some round trips. */
const lastWordsMs = 1_000

/** An audit sink or a collector that hangs holds up the end of the process for this long at most. */
const auditCloseMs = 2_000
const traceCloseMs = 2_000

type Drained = Readonly<{
  services: Services
  listeners: readonly Listener[]
  drainStreams: Relaying['drainStreams']
  inFlight: InFlightRequests
  certificates: FilesWatcher
}>

/** Requests end first, then the services that they need; services that still write end last (SPEC section 6, Drain). */
export function createDrain(configuration: Configuration, log: ProcessLog, drained: Drained) {
  const { services, listeners, drainStreams, inFlight, certificates } = drained
  const { issuers, keys, upstreams, policies, shadow, exchanges, logouts, polls, opened, decisionPoints } = services
  const { audit, tracing } = services
  let isDraining = false
  const drain: Drain = async (options = {}) => {
    if (isDraining) return
    isDraining = true
    const { delayMs, timeoutMs } = { ...configuration.drain, ...options }
    log.info({ delayMs, timeoutMs }, 'draining')
    // A load balancer reads /readyz first; until it does, new connections still arrive.
    await sleep(delayMs)
    await closeListeners(listeners, timeoutMs, drainStreams)
    for (const part of [polls, issuers, keys, certificates, upstreams, policies, shadow, exchanges]) part.stop()
    await inFlight.untilIdle(lastWordsMs)
    await logouts.stop()
    await Promise.all([opened.close(), decisionPoints.stop(), audit.close(auditCloseMs), tracing?.stop(traceCloseMs)])
  }
  return { drain, isDraining: () => isDraining }
}

async function closeListeners(
  listeners: readonly Listener[],
  timeoutMs: number,
  drainStreams: Relaying['drainStreams'],
): Promise<void> {
  const closed = Promise.all(listeners.map((listener) => listener.close()))
  const cut = (): void => {
    for (const listener of listeners) listener.destroy()
  }
  const endStreams = (): void => {
    timer = setTimeout(guarded('process', cut), drainStreams() > 0 ? lastWordsMs : 0)
  }
  let timer = setTimeout(guarded('process', endStreams, cut), timeoutMs)
  await closed
  clearTimeout(timer)
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
