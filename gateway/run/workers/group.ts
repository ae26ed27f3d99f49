// Several processes that share the listeners’ ports: a primary starts, watches and replaces them.

import type { Configuration, ListenerSettings } from '../../configuration/configuration.ts'
import { warnOfOpenSecrets } from '../../configuration/secret-files.ts'
import { createGroupMetrics } from '../../observe/metrics/group.ts'
import { checkConfiguration } from '../boot/check-configuration.ts'
import { warnOfUnboundCookies } from '../boot/check-issuers.ts'
import { openConsole } from '../boot/console.ts'
import type { Drain } from '../boot/drain.ts'
import type { Gateway } from '../boot/gateway.ts'
import { createProcessContext, logCloseMs, openAdmin, reportFaultTo, reportWarningTo } from '../boot/process-context.ts'
import { aggregatePages } from './aggregate-pages.ts'
import type { Assignment } from './messages.ts'
import { startWorkerPool } from './worker-pool.ts'

/** A hundred times longer than any request keeps the event loop busy. */
const silenceMs = 30_000

export async function startGroup(
  configuration: Configuration,
  size: number,
  onFailure: (error: Error) => void,
): Promise<Gateway> {
  await checkConfiguration(configuration)
  const context = createProcessContext(configuration)
  const { log, metrics, engine } = context
  warnOfOpenSecrets(configuration.secretFiles, log)
  warnOfUnboundCookies(configuration, log)
  const group = createGroupMetrics()
  const pool = startWorkerPool({
    size,
    listeners: placesOf(configuration.listeners),
    log,
    monotonicMs: () => performance.now(),
    silenceMs,
    onDeath: ({ pid }) => group.retire(pid),
    onRestart: group.countRestart,
    onFailure,
  })
  group.watchWorkers(() => pool.serving().length)
  const stands = await pool.started
  let stopped: Promise<void> | undefined
  const pages = aggregatePages(
    pool,
    group,
    metrics,
    () => stopped !== undefined,
    (facts) => openConsole(configuration, facts),
  )
  const admin = await openAdmin(configuration, context, pages)
  const addresses = { ...stands, admin: admin.address }
  log.info({ ...addresses, workers: size }, 'listening')

  const stop: Drain = async (options) => {
    const { delayMs, timeoutMs } = { ...configuration.drain, ...options }
    log.info({ delayMs, timeoutMs }, 'draining')
    try {
      await pool.drain({ delayMs, timeoutMs })
      await Promise.all([admin.close(), engine.close()])
      log.info({}, 'stopped')
    } finally {
      await log.close(logCloseMs)
    }
  }
  return {
    ...addresses,
    reload: async () => {
      warnOfOpenSecrets(configuration.secretFiles, log)
      for (const worker of pool.serving()) worker.reload()
    },
    reportFault: reportFaultTo(log),
    reportWarning: reportWarningTo(log),
    drain: (options) => {
      stopped ??= stop(options)
      return stopped
    },
  }
}

const placesOf = ({ public: clients, decision, signals }: Configuration['listeners']): Assignment['listeners'] => ({
  public: placeOf(clients),
  decision: placeOf(decision),
  ...(signals && { signals: placeOf(signals) }),
})

const placeOf = ({ host, port }: ListenerSettings): Pick<ListenerSettings, 'host' | 'port'> => ({ host, port })
