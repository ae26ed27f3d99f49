import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { readUpstreamAddresses } from '../../gateway/configuration/upstream-addresses.ts'
import type { Directory } from '../../gateway/directory/directory.ts'
import { noLogouts } from '../../gateway/directory/logout.ts'
import { createEngine } from '../../gateway/http/create-engine.ts'
import { PreparedHeaders } from '../../gateway/http/prepared-headers.ts'
import { noAudit } from '../../gateway/observe/audit/audit.ts'
import { describeBug, type Log, type LogFields } from '../../gateway/observe/log/log.ts'
import { createMetrics } from '../../gateway/observe/metrics/metrics.ts'
import { createRecords } from '../../gateway/observe/request-record.ts'
import { createPipeline, type Stages } from '../../gateway/pipeline.ts'
import { loadPolicy } from '../../gateway/policy/load.ts'
import { trackInFlight } from '../../gateway/run/boot/in-flight-requests.ts'
import { createSnapshot } from '../../gateway/run/boot/snapshot.ts'
import { startUpstreams } from '../../gateway/run/boot/upstreams.ts'
import { noCors } from '../../gateway/stages/endpoints/cors.ts'
import { createForward } from '../../gateway/stages/forward/forward.ts'
import { OpenExchanges } from '../../gateway/stages/recheck/recheck.ts'
import { createRelay, type RelayOptions } from '../../gateway/stages/relay/relay.ts'
import { startTimer } from '../../gateway/stages/relay/timer.ts'
import { tunnel } from '../../gateway/stages/relay/tunnel.ts'
import { type TestGatewayOptions, writeConfiguration } from './gateway.ts'
import { listenerOptions } from './listener-options.ts'
import { noConsultation } from './open-exchange.ts'

export type LoggedLine = Readonly<{ level: string; message: string; fields: LogFields }>

export type FaultyOptions = Pick<TestGatewayOptions, 'routes' | 'upstreams'> &
  Readonly<{
    /** Puts other stages into the place of some. */
    spoil: (stages: Stages) => Partial<Stages>
    relay?: Partial<RelayOptions>
    onLine?: (line: LoggedLine) => void
  }>

/** The pipeline on its engine, wired as `run/boot/` does it, with stages that the test spoils. No database, no audit. */
export async function startFaultyGateway(t: Test, { spoil, relay, onLine, ...options }: FaultyOptions) {
  const lines: LoggedLine[] = []
  const note = (level: string) => (fields: LogFields, message: string) => {
    const line = { level, message, fields }
    onLine?.(line)
    lines.push(line)
  }
  const log: Log = {
    request: (fields) => note('info')(fields, 'request'),
    info: note('info'),
    warn: note('warn'),
    error: note('error'),
  }
  const now = () => new Date()
  const monotonicMs = () => performance.now()
  // Public routes do not use it.
  const directory = {} as Directory
  const configuration = loadConfiguration(writeConfiguration(t, options), {})
  const policy = loadPolicy(configuration.policies.directory, readUpstreamAddresses(configuration))
  const engine = createEngine()
  const metrics = createMetrics()
  const upstreams = startUpstreams(configuration, { log, metrics, send: engine.send, monotonicMs })
  t.teardown(upstreams.stop)
  const snapshot = createSnapshot(configuration, policy, upstreams.settings, directory, { admits: () => true }, now)
  const relaying = createRelay({ keepAliveMs: 15_000, startTimer, now, makeId: randomUUID, ...relay })
  const unused = async () => {
    throw new Error('public routes do not come here')
  }
  const recheck = new OpenExchanges({
    hasEnded: noLogouts.hasEnded,
    logoutsUnreadSinceMs: noLogouts.unreadSinceMs,
    ...noConsultation,
    ...configuration.streams,
    readFacts: async () => ({
      users: new Map(),
      tokens: new Map(),
      agents: new Map(),
      clusters: new Map(),
      findResource: () => undefined,
    }),
    knownAt: (readAtMs) => readAtMs,
    policy: () => snapshot,
    now,
    monotonicMs,
    processId: 1,
    onRound: () => undefined,
    onEnded: () => undefined,
    onUnread: () => undefined,
  })
  t.teardown(recheck.stop)
  const stages: Stages = {
    snapshot: () => snapshot,
    isTrustedProxy: () => false,
    cors: noCors,
    credentials: { carriers: new Set(['header']), places: undefined, mayRead: () => false, seesHandshakes: true },
    authenticate: unused,
    directory,
    consult: unused,
    limit: { checkAddress: unused, checkCaller: unused },
    answer: unused,
    audit: noAudit,
    recheck,
    pin: async () => new PreparedHeaders([]),
    forward: createForward(engine.send),
    relay: relaying.relay,
    tunnel,
    beginRecord: createRecords({ log, metrics, now, monotonicMs }, 'public'),
    observe: (observer) => observer,
  }
  const exchanges = trackInFlight(log)
  const listener = await engine.listen(
    {
      ...listenerOptions,
      onFault: (error) => log.error({ error: describeBug(error) }, 'callback failed; its request or connection ended'),
    },
    exchanges.track(createPipeline({ ...stages, ...spoil(stages) })),
  )
  t.teardown(async () => {
    const closed = listener.close()
    listener.destroy()
    await Promise.all([closed, engine.close()])
  })
  return { public: `http://127.0.0.1:${listener.address.port}`, lines, countInFlight: exchanges.count }
}
