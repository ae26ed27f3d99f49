import { guarded, type HearFault, hearFaults, reportFault } from '../../base/fault/guarded.ts'
import { isLoopback } from '../../base/lib/loopback.ts'
import type { Configuration, RequestListenerSettings } from '../../configuration/configuration.ts'
import { ReportedError } from '../../configuration/failure.ts'
import { warnOfLackingFixes } from '../../configuration/node-releases.ts'
import {
  type ConnectionLimits,
  findShortages,
  limitConnections,
  limitHeldBytes,
  readDescriptorLimit,
  readMemoryLimit,
  shareMemory,
} from '../../configuration/process-limits.ts'
import { readVersion } from '../../configuration/version.ts'
import { createEngine } from '../../http/create-engine.ts'
import type { DropReason, Engine, Listener, ListenerOptions } from '../../http/engine.ts'
import type { Exchange } from '../../http/exchange.ts'
import { createDnsCache, lookUpEverywhere } from '../../http/upstream/dns-cache.ts'
import { createForeignResolver } from '../../http/upstream/foreign-names.ts'
import { createResolver } from '../../http/upstream/resolver.ts'
import { createHistory, type RequestHistory } from '../../listeners/admin/history/history.ts'
import { type AdminPages, createAdmin } from '../../listeners/admin/listener.ts'
import { isReady, type Readiness, stateOf } from '../../listeners/admin/readiness.ts'
import { createLog, describeBug, type Log, type ProcessLog } from '../../observe/log/log.ts'
import { createMetrics, type Metrics } from '../../observe/metrics/metrics.ts'
import { placeOf } from '../../policy/configuration-error.ts'
import { readListenerTls } from '../reload/listener-tls.ts'
import { nameOrigins, reportSurplus } from './instrument.ts'

export type ProcessContext = Readonly<{
  log: ProcessLog
  metrics: Metrics
  history: RequestHistory
  engine: Engine
  limits: ConnectionLimits
  /** A port that the system chooses is added once its listener is open. */
  listenerPorts: Set<number>
  isFirstWorker: boolean
  end: () => void
}>

export function createProcessContext(configuration: Configuration, worker?: number): ProcessContext {
  const { log: settings, audit } = configuration
  const isShared = worker !== undefined || audit.sink === 'stdout'
  const metrics = createMetrics()
  const history = createHistory(Date.now)
  const { level, format, bufferBytes } = settings
  const log = createLog(level, { worker, isShared, format, bufferBytes, metrics })
  if (worker === undefined) warnOfLackingFixes(log, new Date())
  const descriptors = readDescriptorLimit()
  const memoryBytes = shareMemory(configuration, readMemoryLimit())
  const limits = limitConnections(configuration, descriptors, memoryBytes)
  for (const shortage of findShortages(configuration, limits))
    log.warn({ ...shortage, descriptors }, 'connection limit lowered; raise the limit of open files')
  const heldBytes = limitHeldBytes(configuration, memoryBytes)
  const resolver = createResolver()
  const rules = { ...configuration.dns, timeoutMs: configuration.timeouts.connectMs, resolver }
  const names = createDnsCache({
    ...rules,
    onState: (name, failure) => {
      if (failure === undefined) log.info({ name }, 'name resolved again')
      else log.warn({ name, code: failure }, 'name not resolved; its last addresses stay in use')
    },
  })
  const endLookups = lookUpEverywhere(names)
  const engine = createEngine({
    maxUpstreamConnections: limits.upstreams,
    names,
    clusterNames: createDnsCache({ ...rules, resolver: createForeignResolver(), isForeign: true }),
    heldBytesLimit: heldBytes,
    onSurplus: reportSurplus(log, metrics),
  })
  metrics.watchDns(names.oldestStaleMs)
  metrics.watchHeldMemory(engine.readHeldMemory, heldBytes)
  metrics.noteBuild({ version: readVersion(), node: process.version })
  metrics.watchDistrustedOrigins(engine.countDistrustedOrigins)
  metrics.watchUpstreamConnections(nameOrigins(configuration, engine.countUpstreamConnections), limits.upstreams)
  const listenerPorts = new Set(Object.values(configuration.listeners).map(({ port }) => port))
  const endFaults = reportFaults(log, metrics)
  const end = (): void => {
    endFaults()
    endLookups()
  }
  return { log, metrics, history, engine, limits, listenerPorts, isFirstWorker: (worker ?? 1) === 1, end }
}

/** A listener at its limit drops thousands a second; the metric counts each. */
const complainEveryMs = 10_000

/** Time for a slow reader of standard output, at the end of any process of the gateway. */
export const logCloseMs = 500

export const reportFaultTo =
  (log: ProcessLog) =>
  (error: unknown): void =>
    log.fatal({ error: describeBug(error) }, 'uncaught error; process drains and ends')

export const reportWarningTo =
  (log: ProcessLog) =>
  (warning: Error): void =>
    log.warn({ error: describeBug(warning) }, 'node warning')

/** A logout is one short message, and a client that sends it slowly holds one of few places. */
const signalMs = 5_000

/**
 * For listeners without a key for it. Go's clients, Traefik among them, keep idle connections for 90 s. A listener that
 * closes earlier closes some while a request is on its way.
 */
const usualKeepAliveMs = 95_000

export async function openListener(
  name: keyof Configuration['listeners'],
  configuration: Configuration,
  context: ProcessContext,
  handle: (exchange: Exchange) => void,
  onRefused: ListenerOptions['onMalformed'] = () => undefined,
): Promise<Listener> {
  const { listeners, timeouts, limits } = configuration
  const { log, metrics, engine } = context
  const maxConnections = context.limits[name]
  const settings: RequestListenerSettings | undefined = listeners[name]
  if (!settings) throw new Error(`listeners.${name} is off`)
  const { host, port, tls } = settings
  const options: ListenerOptions = {
    host,
    port,
    tls: readListenerTls(tls, timeouts.handshakeMs),
    headersTimeoutMs: timeouts.headersMs,
    keepAliveMs: settings.keepAliveMs ?? usualKeepAliveMs,
    bodyIdleTimeoutMs: timeouts.bodyIdleMs,
    minBodyBytesPerSecond: limits.minBodyBytesPerSecond,
    clientIdleTimeoutMs: timeouts.clientIdleMs,
    minResponseBytesPerSecond: limits.minResponseBytesPerSecond,
    maxConnections,
    ...(name === 'signals' && { requestTimeoutMs: signalMs }),
    // The callers of the other listeners are few, and the crowd is not among them.
    displacesIdle: name !== 'public',
    takesHandshakes: name === 'public',
    onDropped: reportDrops(name, context),
    onFault: (error) => reportFault('client', error),
    onMalformed: (refusal) => {
      const { code, requestId, peerAddress } = refusal
      onRefused(refusal)
      metrics.countMalformed(code)
      log.info({ requestId, clientAddress: peerAddress, reason: code, cause: code }, 'malformed request')
    },
  }
  const listener = await engine.listen(options, handle).catch((error: unknown) => {
    throw explainListen(error, name, configuration)
  })
  context.listenerPorts.add(listener.address.port)
  metrics.watchConnections(name, listener.countConnections, maxConnections)
  return listener
}

const listenAdvice: Readonly<Record<string, readonly [key: 'host' | 'port', why: string]>> = {
  EADDRINUSE: ['port', 'is taken by another program; stop it, or set another port'],
  EACCES: ['port', 'may not be opened by this user; set a port above 1023'],
  EADDRNOTAVAIL: ['host', 'is not an address of this machine; set one that is, or 0.0.0.0'],
  ENOTFOUND: ['host', 'is not known; set an address of this machine, or 0.0.0.0'],
}

/** The exit code is that of a failure, since the file may be right for another machine. */
function explainListen(error: unknown, name: keyof Configuration['listeners'], configuration: Configuration): unknown {
  const { code = '' } = error as NodeJS.ErrnoException
  const [key, why] = listenAdvice[code] ?? []
  if (key === undefined) return error
  const { host, port } = configuration.listeners[name] ?? {}
  const message = `listeners.${name}.${key}: ${host}:${port} ${why} (${code})`
  const problem = configuration.problemAt(['listeners', name, key], message)
  return new ReportedError({ exitCode: 1, message: `${placeOf(problem)}: ${message}` })
}

const toldReasons: ReadonlySet<DropReason> = new Set(['limit', 'displaced', 'memory'])

function reportDrops(
  listener: keyof Configuration['listeners'],
  { log, metrics, history, limits }: ProcessContext,
): ListenerOptions['onDropped'] {
  let toldAtMs = Number.NEGATIVE_INFINITY
  return (reason) => {
    metrics.countDroppedConnection(listener, reason)
    if (listener === 'public' || listener === 'decision') history.noteDropped(reason)
    const nowMs = performance.now()
    if (!toldReasons.has(reason) || nowMs - toldAtMs < complainEveryMs) return
    toldAtMs = nowMs
    if (reason === 'limit')
      log.warn({ listener, maxConnections: limits[listener] }, 'connections refused; the limit is reached')
    else if (reason === 'displaced')
      log.warn(
        { listener, maxConnections: limits[listener] },
        'idle connections closed for new ones; the limit is reached',
      )
    else log.warn({ listener }, 'connections closed; slow peers hold too much memory')
  }
}

export async function openAdmin(
  configuration: Configuration,
  context: ProcessContext,
  pages: AdminPages,
): Promise<Listener> {
  let isLocal = true
  const handle = createAdmin(pages, () => isLocal)
  const listener = await openListener('admin', configuration, context, handle)
  isLocal = isLoopback(listener.address.host)
  const stopTelling = tellUntilReady(pages.readiness, context.log)
  const close = (): Promise<void> => {
    stopTelling()
    const closed = listener.close()
    listener.destroy()
    return closed
  }
  return { ...listener, close }
}

/** Usual starts take less. After a minute the cause is known, and the log must not fill with it. */
const tellEveryMs = 3_000
const tellRarelyAfterMs = 60_000
const tellRarelyEveryMs = 30_000

function tellUntilReady(readiness: AdminPages['readiness'], log: ProcessLog): () => void {
  const startedMs = performance.now()
  const waited = (): number => Math.round(performance.now() - startedMs)
  let missing: readonly string[] = ['the first check has not ended yet']
  let isAsking = false
  let hasTold = false
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  const stop = (): void => {
    isStopped = true
    clearTimeout(timer)
  }
  const tell = (): void => {
    hasTold = true
    log.warn({ waitedMs: waited(), missing }, 'gateway not ready')
  }
  const look = async (): Promise<void> => {
    schedule()
    if (isAsking) return tell()
    isAsking = true
    const parts = await readiness().finally(() => {
      isAsking = false
    })
    if (isStopped) return
    missing = listMissing(parts)
    if (!isReady(parts)) return tell()
    stop()
    if (hasTold) log.info({ waitedMs: waited() }, 'gateway ready')
  }
  const schedule = (): void => {
    const delayMs = waited() < tellRarelyAfterMs ? tellEveryMs : tellRarelyEveryMs
    timer = setTimeout(guarded('process', look), delayMs).unref()
  }
  schedule()
  return stop
}

const listMissing = (parts: Readiness): readonly string[] =>
  Object.entries(parts).flatMap(([name, report]) => {
    if (stateOf(report) !== 'failing') return []
    return [typeof report === 'string' ? name : `${name}: ${report.cause}`]
  })

/** A peer that can reach a bug must not fill the disk. */
const logFaultEveryMs = 60_000

/** Far above the bugs of one release: texts that vary with a request must not fill memory. */
const rememberedFaults = 100

/**
 * Counts errors that callbacks throw. Logs each cause once a minute, because a bug that a peer can reach must not fill
 * the log.
 */
export function reportFaults(
  log: Pick<Log, 'error'>,
  metrics: Pick<Metrics, 'countFault'>,
  monotonicMs = () => performance.now(),
): () => void {
  const toldAtMs = new Map<string, number>()
  const hear: HearFault = (component, error) => {
    metrics.countFault(component)
    const cause = `${component} ${nameCause(error)}`
    const nowMs = monotonicMs()
    const lastMs = toldAtMs.get(cause)
    if (lastMs !== undefined && nowMs - lastMs < logFaultEveryMs) return
    toldAtMs.delete(cause)
    toldAtMs.set(cause, nowMs)
    const [oldest] = toldAtMs.keys()
    if (toldAtMs.size > rememberedFaults && oldest !== undefined) toldAtMs.delete(oldest)
    log.error({ component, error: describeBug(error) }, 'callback failed; its request or connection ended')
  }
  return hearFaults(hear)
}

/** The place in the code, since a message may quote the peer and differ each time. */
const nameCause = (error: unknown): string =>
  error instanceof Error ? `${error.name} ${error.stack?.split('\n').find((line) => /^\s+at /.test(line)) ?? ''}` : ''
