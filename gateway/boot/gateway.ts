import { randomInt, randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { createAuthenticate } from '../authenticate/authenticate.ts'
import type { Configuration } from '../configuration/configuration.ts'
import { warnOfOpenSecrets } from '../configuration/secret-files.ts'
import { readVersion } from '../configuration/version.ts'
import { createDecision } from '../decision/decision.ts'
import { createClusterStore } from '../directory/postgres/cluster-store.ts'
import { createIssuerKeyStore } from '../directory/postgres/issuer-keys.ts'
import { createPolicyTableStore } from '../directory/postgres/policy-tables.ts'
import { createCors, noCors } from '../endpoints/cors.ts'
import { createAnswer } from '../endpoints/endpoints.ts'
import type { Listener } from '../engine/engine.ts'
import type { Exchange } from '../engine/exchange.ts'
import { guarded } from '../fault/guarded.ts'
import { createForward } from '../forward/forward.ts'
import type { AdminFacts } from '../observe/admin.ts'
import type { Door } from '../observe/audit/line.ts'
import { createUnparsedRecorder } from '../observe/audit/unparsed.ts'
import { checkReadiness } from '../observe/readiness.ts'
import { rememberRefusals } from '../observe/refusals.ts'
import { createStageTrails } from '../observe/stage-trails.ts'
import { openTracing } from '../observe/tracing/tracing.ts'
import { createTrails } from '../observe/trail.ts'
import { createPin } from '../pin/pin.ts'
import { createPipeline, type Snapshot, type Stages } from '../pipeline.ts'
import type { Policy } from '../policy/compile.ts'
import { readRequestId } from '../receive/request-id.ts'
import { join } from '../relay/join.ts'
import { createRelay } from '../relay/relay.ts'
import { startTimer } from '../relay/timer.ts'
import { startKeys } from '../reload/identity-keys.ts'
import { checkDoors, followDoors } from '../reload/listener-tls.ts'
import { startPolicies } from '../reload/policies.ts'
import { startShadow } from '../reload/shadow.ts'
import { openAudit } from './audit.ts'
import { readClusterStates } from './cluster-states.ts'
import { openConsole } from './console.ts'
import { openDirectory } from './directory.ts'
import { trackInFlight } from './in-flight-requests.ts'
import { checkIssuers, rememberVerified, startIssuers } from './issuers.ts'
import { openLimit } from './limit.ts'
import {
  createProcessContext,
  openAdmin,
  openListener,
  type ProcessContext,
  reportFaultTo,
  reportWarningTo,
} from './process-context.ts'
import { checkPassedHeaders, createSnapshot, readClusterNetworks, readTrustedProxies } from './snapshot.ts'
import { traceForward } from './trace-forward.ts'
import { checkUpstreams, startUpstreams } from './upstreams.ts'
import { clusterUpstream, countRetries, timeForward } from './watch-upstreams.ts'

/** A running gateway: one process, or a primary and its workers. */
export type Gateway = Readonly<{
  public: Listener['address']
  decision: Listener['address']
  admin: Listener['address']
  drain: Drain
  reload: Reload
  /** Writes down what no handler has caught. */
  reportFault: (error: unknown) => void
  reportWarning: (warning: Error) => void
}>

/** Stops in order (SPEC section 6, Drain); resolves when nothing is left. */
export type Drain = (options?: Readonly<{ delayMs?: number; timeoutMs?: number }>) => Promise<void>

/** Looks at policies and keys at once; whatever is no good leaves the last good one in force. */
export type Reload = () => Promise<void>

/** All of a gateway but its admin listener, which workers leave to their primary. */
export type Doors = Readonly<{
  public: Listener['address']
  decision: Listener['address']
  facts: AdminFacts
  drain: Drain
  reload: Reload
}>

/** For how long what a stream says last may be on its way when the drain's time is up. */
const lastWordsMs = 1_000

/** What a slow sink may cost the end of a drain. */
const auditCloseMs = 2_000

/** What a slow reader of standard output may cost it, of a gateway, a worker or their primary. */
export const logCloseMs = 500

/** What a slow collector may cost it. */
const traceCloseMs = 2_000

const now = (): Date => new Date()
const monotonicMs = (): number => performance.now()

/** Wires every room of the house and opens its doors. Throws `ConfigurationError` before it opens any. */
export async function openDoors(
  configuration: Configuration,
  configurationFile: string,
  equipment: ProcessContext,
): Promise<Doors> {
  const { log, metrics, engine } = equipment
  checkIssuers(configuration, configurationFile)
  const isTrustedProxy = readTrustedProxies(configuration, configurationFile)
  const clusterNetworks = readClusterNetworks(configuration, configurationFile, equipment.listenerPorts)
  checkPassedHeaders(configuration, configurationFile)
  checkDoors(configuration, configurationFile)
  checkUpstreams(configuration, configurationFile)
  const tracing = await openTracing(process.env, readVersion(), log)
  const sink = openAudit(configuration, configurationFile, { log, metrics, monotonicMs })
  const { audit, refusals } = rememberRefusals(sink)
  const keys = await startKeys(configuration, configurationFile, { log, metrics, now })

  const opened = openDirectory(configuration, { log, metrics, now, monotonicMs })
  const { directory } = opened
  const upstreams = startUpstreams(configuration, { log, metrics, send: engine.send, monotonicMs })
  let snapshot: Snapshot | undefined
  const adopt = (policy: Policy): void => {
    snapshot = createSnapshot(configuration, policy, upstreams.settings, directory, clusterNetworks, now)
  }
  const policies = await startPolicies(configuration, adopt, {
    log,
    metrics,
    now,
    monotonicMs,
    tables: createPolicyTableStore(opened.database.query),
  })
  const shadow = startShadow(configuration, { log, metrics, now, monotonicMs })
  const currentSnapshot = (): Snapshot => {
    if (!snapshot) throw new Error('no policy is in force')
    return snapshot
  }
  const keyStore = createIssuerKeyStore(opened.database.query)
  const issuers = startIssuers(configuration, { log, metrics, now, monotonicMs, keyStore })

  const { relay, countStreams, drainStreams } = createRelay({
    keepAliveMs: configuration.timeouts.keepAliveMs,
    startTimer,
    now,
    makeId: () => randomUUID().replaceAll('-', ''),
  })
  metrics.watchStreams(countStreams)

  const beginTrail = (door: Door) => {
    const trails = createTrails({ log, metrics, audit, now, monotonicMs }, door)
    const timed = createStageTrails(tracing ? tracing.watch(trails, door) : trails, metrics, monotonicMs)
    return shadow.watch(timed)
  }
  const forward = timeForward(createForward(countRetries(engine.send, metrics, log)), metrics, monotonicMs)
  for (const name of [...Object.keys(configuration.upstreams), clusterUpstream]) metrics.watchUpstream(name)
  const stages: Stages = {
    snapshot: currentSnapshot,
    isTrustedProxy,
    cors: configuration.cors ? createCors(configuration.cors) : noCors,
    authenticate: createAuthenticate({
      directory,
      verify: rememberVerified(issuers.byName, configuration, metrics),
      now,
    }),
    directory,
    limit: openLimit(opened.countBy, { metrics, monotonicMs }),
    answer: createAnswer({ directory, draw: randomInt, now }),
    pin: createPin({ issuer: configuration.identity.issuer, signingKey: keys.signing, now }),
    forward: tracing ? traceForward(forward, tracing) : forward,
    relay,
    join,
    beginTrail: beginTrail('proxy'),
  }
  const handle = createPipeline(stages)
  const judge = createDecision({ ...stages, beginTrail: beginTrail('decision') })

  const publishesKeys = configuration.identity.publishOnPublicListener
  const exchanges = trackInFlight(log)
  metrics.watchInFlight(exchanges.count)
  metrics.watchWebSockets(exchanges.countJoined)
  let isDraining = false
  const open = (name: 'public' | 'decision', door: Door, work: (exchange: Exchange) => Promise<void>) =>
    openListener(name, configuration, equipment, exchanges.attend(work), createUnparsedRecorder(audit, door, now))
  const publishKeys = async (exchange: Exchange): Promise<void> =>
    exchange.answer(
      {
        status: 200,
        headers: [
          ...['content-type', 'application/json', 'cache-control', 'no-store'],
          ...['x-request-id', readRequestId(exchange.headers)],
        ],
      },
      JSON.stringify(keys.published()),
    )
  const isForKeys = ({ method, target }: Exchange): boolean =>
    publishesKeys && method === 'GET' && target === '/.well-known/jwks.json'

  const publicListener = await open('public', 'proxy', (exchange) =>
    isForKeys(exchange) ? publishKeys(exchange) : handle(exchange),
  )
  const decisionListener = await open('decision', 'decision', judge)
  const certificates = followDoors(
    configuration,
    { public: publicListener, decision: decisionListener },
    { log, metrics },
  )
  const clusterStore = createClusterStore(opened.database)
  const facts: AdminFacts = {
    metrics: metrics.snapshot,
    publicKeys: async () => keys.published(),
    readiness: () =>
      checkReadiness([
        { name: 'database', check: opened.checkAnswers },
        { name: 'schema', check: opened.checkSchema },
        { name: 'writes', check: opened.checkWrites },
        { name: 'policy', check: () => void currentSnapshot().table },
        {
          name: 'draining',
          check: () => {
            if (isDraining) throw new Error('draining')
          },
        },
      ]),
    policies: async () => ({ live: policies.state(), shadow: shadow.state() }),
    policyTexts: async () => policies.texts(),
    refusals: async () => refusals(),
    clusters: () => readClusterStates(clusterStore, opened.readHeartbeat, now, configuration.cluster.staleAfterMs),
  }

  const drain: Drain = async (options = {}) => {
    if (isDraining) return
    isDraining = true
    const { delayMs, timeoutMs } = { ...configuration.drain, ...options }
    log.info({ delayMs, timeoutMs }, 'draining')
    // Whoever routes to us reads /readyz first; until then new connections still find us.
    await sleep(delayMs)
    const doors = [publicListener, decisionListener]
    const closed = Promise.all(doors.map((door) => door.close()))
    const cut = (): void => {
      for (const door of doors) door.destroy()
    }
    const endStreams = (): void => {
      // A stream that is told of its end still has to take that to its client.
      timer = setTimeout(guarded('process', cut), drainStreams() > 0 ? lastWordsMs : 0)
    }
    let timer = setTimeout(guarded('process', endStreams, cut), timeoutMs)
    await closed
    clearTimeout(timer)
    issuers.stop()
    keys.stop()
    certificates.stop()
    upstreams.stop()
    policies.stop()
    shadow.stop()
    await exchanges.untilIdle(lastWordsMs)
    await Promise.all([opened.close(), audit.close(auditCloseMs), tracing?.stop(traceCloseMs)])
  }
  const reload = async (): Promise<void> => {
    log.info({}, 'asked to reload policies and keys')
    await Promise.all([policies.reload(), shadow.reload(), keys.reload(), certificates.reload(), upstreams.reload()])
  }
  return { public: publicListener.address, decision: decisionListener.address, facts, drain, reload }
}

/** A whole gateway in this process. */
export async function startGateway(configuration: Configuration, configurationFile: string): Promise<Gateway> {
  const equipment = createProcessContext(configuration)
  const { log, metrics, engine } = equipment
  warnOfOpenSecrets(configuration.secretFiles, log)
  const doors = await openDoors(configuration, configurationFile, equipment)
  const admin = await openAdmin(configuration, equipment, {
    ...doors.facts,
    metrics: async () => ({ contentType: metrics.contentType, text: await metrics.text() }),
    console: openConsole(configuration, doors.facts),
  })
  const addresses = { public: doors.public, decision: doors.decision, admin: admin.address }
  log.info(addresses, 'listening')
  let stopped: Promise<void> | undefined
  const stop: Drain = async (options) => {
    await doors.drain(options)
    await Promise.all([admin.close(), engine.close()])
    log.info({}, 'stopped')
    equipment.end()
    await log.close(logCloseMs)
  }
  return {
    ...addresses,
    reload: () => {
      warnOfOpenSecrets(configuration.secretFiles, log)
      return doors.reload()
    },
    reportFault: reportFaultTo(log),
    reportWarning: reportWarningTo(log),
    drain: (options) => {
      stopped ??= stop(options)
      return stopped
    },
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
