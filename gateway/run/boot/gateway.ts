// One gateway, wired from its configuration. Only here do the stages meet their implementations.

import type { Configuration } from '../../configuration/configuration.ts'
import { warnOfOpenSecrets } from '../../configuration/secret-files.ts'
import type { Listener, MalformedRequest } from '../../http/engine.ts'
import type { Exchange } from '../../http/exchange.ts'
import type { Networks } from '../../http/upstream/networks.ts'
import type { AdminState } from '../../listeners/admin/listener.ts'
import { checkReadiness } from '../../listeners/admin/readiness.ts'
import { createWhoMay } from '../../listeners/decision/authzen/who-may.ts'
import { createSignals } from '../../listeners/signals/signals.ts'
import { createMalformedRecorder } from '../../observe/audit/audit.ts'
import type { AuditedListener } from '../../observe/audit/line.ts'
import type { Stages } from '../../pipeline.ts'
import type { TrustedProxies } from '../../stages/receive/client.ts'
import { readHeaders } from '../../stages/receive/headers.ts'
import { readRequestId } from '../../stages/receive/request-id.ts'
import type { IdentityKeys } from '../reload/identity-keys.ts'
import { checkListenerTls, watchListenerTls } from '../reload/listener-tls.ts'
import { checkIssuers, warnOfUnboundCookies } from './check-issuers.ts'
import { checkListeners } from './check-listeners.ts'
import { readClusterStates } from './cluster-states.ts'
import { openConsole } from './console.ts'
import { createDrain, type Drain } from './drain.ts'
import { type InFlightRequests, trackInFlight } from './in-flight-requests.ts'
import {
  createProcessContext,
  logCloseMs,
  openAdmin,
  openListener,
  type ProcessContext,
  reportFaultTo,
  reportWarningTo,
} from './process-context.ts'
import { reportSignals } from './security-events.ts'
import { now, type Services, startServices } from './services.ts'
import { checkPassedHeaders, readClusterNetworks, readTrustedProxies } from './snapshot.ts'
import { type Wired, wireStages } from './stages.ts'
import { checkUpstreams } from './upstreams.ts'

export type Gateway = Readonly<{
  public: Listener['address']
  decision: Listener['address']
  admin: Listener['address']
  signals?: Listener['address']
  drain: Drain
  reload: Reload
  reportFault: (error: unknown) => void
  reportWarning: (warning: Error) => void
}>

export type Reload = () => Promise<void>

export type RequestListeners = Readonly<{
  public: Listener['address']
  decision: Listener['address']
  signals?: Listener['address']
  facts: AdminState
  drain: Drain
  reload: Reload
}>

export async function startListeners(configuration: Configuration, context: ProcessContext): Promise<RequestListeners> {
  const { log, metrics } = context
  // All that the configuration alone can show to be wrong is refused before the first connection is opened.
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
    listeners: Object.values(listeners),
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
  return { ...addressesOf(listeners), facts, drain, reload }
}

const addressesOf = ({ public: clients, decision, signals }: OpenListeners) => ({
  public: clients.address,
  decision: decision.address,
  ...(signals && { signals: signals.address }),
})

type NetworkRules = Readonly<{ isTrustedProxy: TrustedProxies; ofClusters: Networks }>

function readNetworks(configuration: Configuration, { listenerPorts }: ProcessContext): NetworkRules {
  checkListeners(configuration)
  checkIssuers(configuration)
  const isTrustedProxy = readTrustedProxies(configuration)
  const ofClusters = readClusterNetworks(configuration, listenerPorts)
  checkPassedHeaders(configuration)
  checkListenerTls(configuration)
  checkUpstreams(configuration)
  return { isTrustedProxy, ofClusters }
}

type OpenListeners = Readonly<Record<'public' | 'decision', Listener> & { signals?: Listener }>

async function openListeners(
  configuration: Configuration,
  services: Services,
  { handle, judge, cors }: Wired,
  inFlight: InFlightRequests,
  context: ProcessContext,
): Promise<OpenListeners> {
  const { audit, keys, snapshot } = services
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
  const opened = { public: await open('public', handlePublic), decision: await open('decision', judge) }
  if (!configuration.listeners.signals) return opened
  return { ...opened, signals: await openSignals(configuration, services, inFlight, context) }
}

async function openSignals(
  configuration: Configuration,
  { receivers }: Services,
  inFlight: InFlightRequests,
  context: ProcessContext,
): Promise<Listener> {
  let listener: Listener | undefined
  const onProven = (address: string): void => listener?.keepPlacesFor(address)
  const handle = createSignals(receivers, { ...reportSignals(context), onProven })
  listener = await openListener('signals', configuration, context, inFlight.track(handle))
  return listener
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
  { opened, keys, policies, shadow, issuers, exchanges, decisionPoints, snapshot }: Services,
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
    whoMay: createWhoMay(opened.directory, snapshot, decisionPoints.consult),
    clusters: () => readClusterStates(opened.stores.clusters, opened.readHeartbeat, now, staleAfterMs),
  }
}

export async function startGateway(configuration: Configuration): Promise<Gateway> {
  const context = createProcessContext(configuration)
  const { log, metrics, engine } = context
  warnOfOpenSecrets(configuration.secretFiles, log)
  warnOfUnboundCookies(configuration, log)
  const listeners = await startListeners(configuration, context)
  const admin = await openAdmin(configuration, context, {
    ...listeners.facts,
    metrics: async () => ({ contentType: metrics.contentType, text: await metrics.text() }),
    console: openConsole(configuration, listeners.facts),
  })
  const { signals } = listeners
  const addresses = {
    public: listeners.public,
    decision: listeners.decision,
    admin: admin.address,
    ...(signals && { signals }),
  }
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
