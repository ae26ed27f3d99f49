import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import type { Configuration } from '../../configuration/configuration.ts'
import { limitWaiting } from '../../configuration/process-limits.ts'
import type { Exchange } from '../../http/exchange.ts'
import { createAuthzen } from '../../listeners/decision/authzen/authzen.ts'
import { createPageTokens } from '../../listeners/decision/authzen/page-tokens.ts'
import { createDecision } from '../../listeners/decision/decision.ts'
import { createFailureRecorder } from '../../observe/audit/audit.ts'
import type { AuditedListener } from '../../observe/audit/line.ts'
import { createChainWarnings } from '../../observe/chain-warnings.ts'
import { createRecords, type EndedRequest, type ObserveRequest } from '../../observe/request-record.ts'
import { observeStages } from '../../observe/stage-timings.ts'
import { createPipeline, type Stages } from '../../pipeline.ts'
import { createAuthenticate } from '../../stages/authenticate/authenticate.ts'
import { createCors, noCors } from '../../stages/endpoints/cors.ts'
import { createAnswer } from '../../stages/endpoints/endpoints.ts'
import { createForward } from '../../stages/forward/forward.ts'
import { createWaitingShares } from '../../stages/forward/waiting-shares.ts'
import { createPin } from '../../stages/pin/pin.ts'
import type { TrustedProxies } from '../../stages/receive/client.ts'
import { createRelay, type Relaying } from '../../stages/relay/relay.ts'
import { startTimer } from '../../stages/relay/timer.ts'
import { tunnel } from '../../stages/relay/tunnel.ts'
import { clusterUpstream, countRetries, timeForward, timePin, traceForward } from './instrument.ts'
import { readCredentialRules } from './issuer-trust.ts'
import { rememberVerified } from './issuers.ts'
import { openLimit } from './limit.ts'
import type { ProcessContext } from './process-context.ts'
import { monotonicMs, now, type Services } from './services.ts'

export type Wired = Readonly<{
  handle: (exchange: Exchange) => Promise<void>
  judge: (exchange: Exchange) => Promise<void>
  drainStreams: Relaying['drainStreams']
  cors: Stages['cors']
}>

export function wireStages(
  configuration: Configuration,
  isTrustedProxy: TrustedProxies,
  { tracing, audit, keys, opened, shadow, issuers, exchanges, decisionPoints, logouts, snapshot }: Services,
  { log, metrics, history, engine, limits }: ProcessContext,
): Wired {
  const { directory } = opened
  const { relay, countStreams, drainStreams } = createRelay({
    keepAliveMs: configuration.timeouts.keepAliveMs,
    startTimer,
    now,
    makeId: () => randomUUID().replaceAll('-', ''),
  })
  metrics.watchStreams(countStreams)
  const onRequestEnd = tellEnds(history, createFailureRecorder(audit, now))
  const onUnreadableChain = createChainWarnings({ log, metrics, monotonicMs })
  const beginRecord = (listener: AuditedListener) =>
    createRecords({ log, metrics, now, monotonicMs, onRequestEnd, onUnreadableChain }, listener)
  const time = observeStages(metrics, monotonicMs)
  const observe = (listener: AuditedListener): ObserveRequest => {
    const follow = followBy(time, tracing?.observe(listener))
    return (record, exchange, id) => shadow.observe(follow(record, exchange, id), exchange, id)
  }
  const forward = openForward(configuration, { log, metrics, history, engine, limits })
  const credentials = readCredentialRules(configuration, issuers.carriers)
  const verify = rememberVerified(issuers, configuration, metrics)
  const stages: Stages = {
    snapshot,
    isTrustedProxy,
    cors: configuration.cors ? createCors(configuration.cors) : noCors,
    credentials: credentials.public,
    authenticate: createAuthenticate({ directory, verify, logouts, now }),
    directory,
    consult: decisionPoints.consult,
    limit: openLimit(opened.countBy, { metrics, monotonicMs }),
    answer: createAnswer({ directory, draw: randomInt, now }),
    audit,
    recheck: exchanges.recheck,
    pin: timePin(
      createPin({ issuer: configuration.identity.issuer, signingKey: keys.signing, now }),
      metrics.observeStage.pin,
      monotonicMs,
    ),
    forward: tracing ? traceForward(forward, tracing) : forward,
    relay,
    tunnel,
    beginRecord: beginRecord('public'),
    observe: observe('public'),
  }
  const ofDecision: Stages = {
    ...stages,
    credentials: credentials.decision,
    beginRecord: beginRecord('decision'),
    observe: observe('decision'),
  }
  // An evaluation is a question and not a request, so the shadow policy is not asked about it.
  const ofAuthzen: Stages = { ...ofDecision, observe: followBy(time, tracing?.observe('decision')) }
  const judge = createDecision(ofDecision, configuration.listeners, openAuthzen(configuration, ofAuthzen, keys))
  return { handle: createPipeline(stages), judge, drainStreams, cors: stages.cors }
}

function openForward(
  configuration: Configuration,
  { log, metrics, history, engine, limits }: Pick<ProcessContext, 'log' | 'metrics' | 'history' | 'engine' | 'limits'>,
): Stages['forward'] {
  // Their series begin with 0 before the first request.
  for (const name of [...Object.keys(configuration.upstreams), clusterUpstream]) metrics.watchUpstream(name)
  const shares = createWaitingShares(limitWaiting(configuration, limits))
  metrics.watchWaiting(shares.readMost)
  const forward = createForward(countRetries(engine.send, metrics, log), shares)
  return timeForward(forward, metrics, history, monotonicMs)
}

function openAuthzen({ listeners }: Configuration, stages: Stages, keys: Services['keys']) {
  const { authzen, evaluators = [] } = listeners.decision
  if (!authzen) return undefined
  const pageTokens = createPageTokens({ privateKey: () => keys.signing().privateKey, drawBytes: randomBytes })
  return createAuthzen(stages, { ...authzen, evaluators }, { pageTokens, monotonicMs, now })
}

const tellEnds =
  ({ noteEnd }: Pick<ProcessContext['history'], 'noteEnd'>, recordFailure: (request: EndedRequest) => void) =>
  (request: EndedRequest): void => {
    noteEnd(request)
    recordFailure(request)
  }

const followBy =
  (time: ObserveRequest, trace: ObserveRequest | undefined): ObserveRequest =>
  (record, exchange, id) =>
    time(trace ? trace(record, exchange, id) : record, exchange, id)
