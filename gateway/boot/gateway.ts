import { randomInt, randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import type { AdminState } from '../admin/listener.ts'
import { checkReadiness } from '../admin/readiness.ts'
import { createAuthenticate } from '../authenticate/authenticate.ts'
import type { Configuration } from '../configuration/configuration.ts'
import { warnOfOpenSecrets } from '../configuration/secret-files.ts'
import { readVersion } from '../configuration/version.ts'
import { createDecision } from '../decision/decision.ts'
import { createCors, noCors } from '../endpoints/cors.ts'
import { createAnswer } from '../endpoints/endpoints.ts'
import { guarded } from '../fault/guarded.ts'
import { createForward } from '../forward/forward.ts'
import type { Listener, MalformedRequest } from '../http/engine.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Networks } from '../http/upstream/networks.ts'
import { type Audit, createMalformedRecorder } from '../observe/audit/audit.ts'
import type { AuditedListener } from '../observe/audit/line.ts'
import type { ProcessLog } from '../observe/log/log.ts'
import { createRecords, type ObserveRequest } from '../observe/request-record.ts'
import { observeStages } from '../observe/stage-timings.ts'
import { openTracing, type Tracing } from '../observe/tracing/tracing.ts'
import { createPin } from '../pin/pin.ts'
import { createPipeline, type Snapshot, type Stages } from '../pipeline.ts'
import type { Policy } from '../policy/compile.ts'
import type { TrustedProxies } from '../receive/client.ts'
import { readHeaders } from '../receive/headers.ts'
import { readRequestId } from '../receive/request-id.ts'
import { createRelay, type Relaying } from '../relay/relay.ts'
import { startTimer } from '../relay/timer.ts'
import { tunnel } from '../relay/tunnel.ts'
import { type IdentityKeys, startKeys } from '../reload/identity-keys.ts'
import { checkListenerTls, watchListenerTls } from '../reload/listener-tls.ts'
import type { FilesWatcher } from '../reload/pem-files.ts'
import { startPolicies, type TablePolicies } from '../reload/policies.ts'
import { type Shadow, startShadow } from '../reload/shadow.ts'
import { openAudit } from './audit.ts'
import { readClusterStates } from './cluster-states.ts'
import { openConsole } from './console.ts'
import { type OpenDirectory, openDirectory } from './directory.ts'
import { type InFlightRequests, trackInFlight } from './in-flight-requests.ts'
import { clusterUpstream, countRetries, timeForward, traceForward } from './instrument.ts'
import {
  checkIssuers,
  checkRuleNames,
  type Issuers,
  readCredentialRules,
  rememberVerified,
  startIssuers,
} from './issuers.ts'
import { openLimit } from './limit.ts'
import { type WatchedExchanges, watchExchanges } from './open-exchanges.ts'
import {
  createProcessContext,
  openAdmin,
  openListener,
  type ProcessContext,
  reportFaultTo,
  reportWarningTo,
} from './process-context.ts'
import { checkPassedHeaders, createSnapshot, readClusterNetworks, readTrustedProxies } from './snapshot.ts'
import { checkUpstreams, startUpstreams, type Upstreams } from './upstreams.ts'

export type Gateway = Readonly<{
  public: Listener['address']
  decision: Listener['address']
  admin: Listener['address']
  drain: Drain
  reload: Reload
  reportFault: (error: unknown) => void
  reportWarning: (warning: Error) => void
}>

/** Stops in order (SPEC section 6, Drain); resolves once every connection has ended. */
export type Drain = (options?: Readonly<{ delayMs?: number; timeoutMs?: number }>) => Promise<void>

export type Reload = () => Promise<void>

export type RequestListeners = Readonly<{
  public: Listener['address']
  decision: Listener['address']
  facts: AdminState
  drain: Drain
  reload: Reload
}>

/** A stream's last event may need this long after the drain's time is up. */
const lastWordsMs = 1_000

const auditCloseMs = 2_000

/** Time for a slow reader of standard output, at the end of any process of the gateway. */
export const logCloseMs = 500

const traceCloseMs = 2_000

const now = (): Date => new Date()
const monotonicMs = (): number => performance.now()

export async function startListeners(configuration: Configuration, context: ProcessContext): Promise<RequestListeners> {
  const { log, metrics } = context
  const networks = readNetworks(configuration, context)
  const services = await startServices(configuration, networks.ofClusters, context)
  const wired = wireStages(configuration, networks.isTrustedProxy, services, context)
  const inFlight = trackInFlight(log)
  metrics.watchInFlight(inFlight.count)
  metrics.watchWebSockets(inFlight.countJoined)
  const listeners = await openListeners(configuration, services, wired, inFlight, context)
  const certificates = watchListenerTls(configuration, listeners, { log, metrics })
  const { drain, isDraining } = createDrain(configuration, log, {
    services,
    listeners: [listeners.public, listeners.decision],
    drainStreams: wired.drainStreams,
    inFlight,
    certificates,
  })
  const facts = collectFacts(configuration, services, isDraining, context)
  const { policies, shadow, keys, upstreams } = services
  const reload = async (): Promise<void> => {
    log.info({}, 'reload requested')
    await Promise.all([policies.reload(), shadow.reload(), keys.reload(), certificates.reload(), upstreams.reload()])
  }
  return { public: listeners.public.address, decision: listeners.decision.address, facts, drain, reload }
}

type NetworkRules = Readonly<{ isTrustedProxy: TrustedProxies; ofClusters: Networks }>

function readNetworks(configuration: Configuration, { listenerPorts }: ProcessContext): NetworkRules {
  checkIssuers(configuration)
  const isTrustedProxy = readTrustedProxies(configuration)
  const ofClusters = readClusterNetworks(configuration, listenerPorts)
  checkPassedHeaders(configuration)
  checkListenerTls(configuration)
  checkUpstreams(configuration)
  return { isTrustedProxy, ofClusters }
}

type Services = Readonly<{
  tracing: Tracing | undefined
  audit: Audit
  keys: IdentityKeys
  opened: OpenDirectory
  upstreams: Upstreams
  policies: TablePolicies
  shadow: Shadow
  issuers: Issuers
  exchanges: WatchedExchanges
  snapshot: () => Snapshot
}>

async function startServices(
  configuration: Configuration,
  clusterNetworks: Networks,
  { log, metrics, engine }: ProcessContext,
): Promise<Services> {
  const tracing = await openTracing(process.env, readVersion(), log)
  const audit = openAudit(configuration, { log, metrics, monotonicMs })
  const keys = await startKeys(configuration, { log, metrics, now })

  let current: Snapshot | undefined
  const snapshot = (): Snapshot => {
    if (!current) throw new Error('no policy is in force')
    return current
  }
  const opened = openDirectory(configuration, snapshot, { log, metrics, now, monotonicMs })
  const upstreams = startUpstreams(configuration, { log, metrics, send: engine.send, monotonicMs })
  const exchanges = watchExchanges(configuration, opened, snapshot, { log, metrics, audit, now, monotonicMs })
  const adopt = (policy: Policy): void => {
    if (!current) checkRuleNames(configuration, policy)
    current = createSnapshot(configuration, policy, upstreams.settings, opened.directory, clusterNetworks, now)
    exchanges.recheck.recheckAll()
  }
  const { policyTables: tables, issuerKeys: keyStore } = opened.stores
  const policies = await startPolicies(configuration, adopt, { log, metrics, now, monotonicMs, tables })
  const shadow = startShadow(configuration, { log, metrics, now, monotonicMs })
  const issuers = startIssuers(configuration, { log, metrics, now, monotonicMs, keyStore })
  return { tracing, audit, keys, opened, upstreams, policies, shadow, issuers, exchanges, snapshot }
}

type Wired = Readonly<{
  handle: (exchange: Exchange) => Promise<void>
  judge: (exchange: Exchange) => Promise<void>
  drainStreams: Relaying['drainStreams']
  cors: Stages['cors']
}>

function wireStages(
  configuration: Configuration,
  isTrustedProxy: TrustedProxies,
  { tracing, audit, keys, opened, shadow, issuers, exchanges, snapshot }: Services,
  { log, metrics, history, engine }: ProcessContext,
): Wired {
  const { directory } = opened
  const { relay, countStreams, drainStreams } = createRelay({
    keepAliveMs: configuration.timeouts.keepAliveMs,
    startTimer,
    now,
    makeId: () => randomUUID().replaceAll('-', ''),
  })
  metrics.watchStreams(countStreams)
  const beginRecord = (listener: AuditedListener) =>
    createRecords({ log, metrics, now, monotonicMs, onRequestEnd: history.noteEnd }, listener)
  const time = observeStages(metrics, monotonicMs)
  const observe = (listener: AuditedListener): ObserveRequest => {
    const trace = tracing?.observe(listener)
    return (record, exchange, id) =>
      shadow.observe(time(trace ? trace(record, exchange, id) : record, exchange, id), exchange, id)
  }
  const forward = timeForward(createForward(countRetries(engine.send, metrics, log)), metrics, history, monotonicMs)
  for (const name of [...Object.keys(configuration.upstreams), clusterUpstream]) metrics.watchUpstream(name)
  const credentials = readCredentialRules(configuration, issuers.carriers)
  const verify = rememberVerified(issuers.byName, configuration, metrics)
  const stages: Stages = {
    snapshot,
    isTrustedProxy,
    cors: configuration.cors ? createCors(configuration.cors) : noCors,
    credentials: credentials.public,
    authenticate: createAuthenticate({ directory, verify, now }),
    directory,
    limit: openLimit(opened.countBy, { metrics, monotonicMs }),
    answer: createAnswer({ directory, draw: randomInt, now }),
    audit,
    recheck: exchanges.recheck,
    pin: createPin({ issuer: configuration.identity.issuer, signingKey: keys.signing, now }),
    forward: tracing ? traceForward(forward, tracing) : forward,
    relay,
    tunnel,
    beginRecord: beginRecord('public'),
    observe: observe('public'),
  }
  const judge = createDecision({
    ...stages,
    credentials: credentials.decision,
    beginRecord: beginRecord('decision'),
    observe: observe('decision'),
  })
  return { handle: createPipeline(stages), judge, drainStreams, cors: stages.cors }
}

type OpenListeners = Readonly<Record<'public' | 'decision', Listener>>

async function openListeners(
  configuration: Configuration,
  { audit, keys, snapshot }: Services,
  { handle, judge, cors }: Wired,
  inFlight: InFlightRequests,
  context: ProcessContext,
): Promise<OpenListeners> {
  const publishesKeys = configuration.identity.publishOnPublicListener
  const isForKeys = (exchange: Exchange): boolean =>
    publishesKeys &&
    exchange.method === 'GET' &&
    exchange.target === '/.well-known/jwks.json' &&
    isValidHead(exchange, snapshot().headLimits.usual.headerBytes)
  const handlePublic = (exchange: Exchange): Promise<void> =>
    isForKeys(exchange) ? publishKeys(keys, cors, exchange) : handle(exchange)
  const hearMalformed = (name: AuditedListener) => {
    const record = createMalformedRecorder(audit, name, now)
    return (request: MalformedRequest): void => {
      record(request)
      context.history.noteMalformed(name, request)
    }
  }
  const open = (name: AuditedListener, work: (exchange: Exchange) => Promise<void>) =>
    openListener(name, configuration, context, inFlight.track(work), hearMalformed(name))
  return { public: await open('public', handlePublic), decision: await open('decision', judge) }
}

async function publishKeys(keys: IdentityKeys, cors: Stages['cors'], exchange: Exchange): Promise<void> {
  cors.decorate(exchange)
  const contentHeaders = ['content-type', 'application/json', 'cache-control', 'no-store']
  const requestId = readRequestId(exchange.headers)
  exchange.respond(
    { status: 200, headers: [...contentHeaders, 'x-request-id', requestId] },
    JSON.stringify(keys.published()),
  )
}

function collectFacts(
  configuration: Configuration,
  { opened, keys, policies, shadow, issuers, exchanges, snapshot }: Services,
  isDraining: () => boolean,
  { metrics, history }: ProcessContext,
): AdminState {
  const { staleAfterMs } = configuration.cluster
  const requireServing = (): void => {
    if (isDraining()) throw new Error('draining')
  }
  return {
    metrics: metrics.snapshot,
    publicKeys: async () => keys.published(),
    readiness: () =>
      checkReadiness([
        ...opened.parts,
        { name: 'issuers', check: issuers.requireKeys },
        { name: 'policy', check: () => void snapshot().table },
        { name: 'draining', check: requireServing },
      ]),
    policies: async () => ({ live: policies.state(), shadow: shadow.state() }),
    policyTexts: async () => policies.texts(),
    history: async (query) => history.read(query),
    exchanges: exchanges.recheck.list,
    clusters: () => readClusterStates(opened.stores.clusters, opened.readHeartbeat, now, staleAfterMs),
  }
}

type Drained = Readonly<{
  services: Services
  listeners: readonly Listener[]
  drainStreams: Relaying['drainStreams']
  inFlight: InFlightRequests
  certificates: FilesWatcher
}>

/** Requests end first, then the services that they need; services that still write end last. */
function createDrain(configuration: Configuration, log: ProcessLog, drained: Drained) {
  const { services, listeners, drainStreams, inFlight, certificates } = drained
  const { issuers, keys, upstreams, policies, shadow, exchanges, opened, audit, tracing } = services
  let isDraining = false
  const drain: Drain = async (options = {}) => {
    if (isDraining) return
    isDraining = true
    const { delayMs, timeoutMs } = { ...configuration.drain, ...options }
    log.info({ delayMs, timeoutMs }, 'draining')
    // A load balancer reads /readyz first; until it does, new connections still arrive.
    await sleep(delayMs)
    await closeListeners(listeners, timeoutMs, drainStreams)
    for (const part of [issuers, keys, certificates, upstreams, policies, shadow, exchanges]) part.stop()
    await inFlight.untilIdle(lastWordsMs)
    await Promise.all([opened.close(), audit.close(auditCloseMs), tracing?.stop(traceCloseMs)])
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

export async function startGateway(configuration: Configuration): Promise<Gateway> {
  const context = createProcessContext(configuration)
  const { log, metrics, engine } = context
  warnOfOpenSecrets(configuration.secretFiles, log)
  const listeners = await startListeners(configuration, context)
  const admin = await openAdmin(configuration, context, {
    ...listeners.facts,
    metrics: async () => ({ contentType: metrics.contentType, text: await metrics.text() }),
    console: openConsole(configuration, listeners.facts),
  })
  const addresses = { public: listeners.public, decision: listeners.decision, admin: admin.address }
  log.info(addresses, 'listening')
  let stopped: Promise<void> | undefined
  const stop: Drain = async (options) => {
    await listeners.drain(options)
    await Promise.all([admin.close(), engine.close()])
    log.info({}, 'stopped')
    context.end()
    await log.close(logCloseMs)
  }
  return {
    ...addresses,
    reload: () => {
      warnOfOpenSecrets(configuration.secretFiles, log)
      return listeners.reload()
    },
    reportFault: reportFaultTo(log),
    reportWarning: reportWarningTo(log),
    drain: (options) => {
      stopped ??= stop(options)
      return stopped
    },
  }
}

function isValidHead(exchange: Exchange, headerBytes: number): boolean {
  try {
    readHeaders(exchange, headerBytes)
    return true
  } catch {
    return false
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
