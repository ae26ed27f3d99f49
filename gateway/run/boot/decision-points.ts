import { readFile } from 'node:fs/promises'
import type { GatewayError } from '../../base/errors/gateway-error.ts'
import { guarded } from '../../base/fault/guarded.ts'
import type { Configuration, DecisionPointSettings } from '../../configuration/configuration.ts'
import { openKeptClient } from '../../http/outsiders.ts'
import { describeError, type Log } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import { HeardLog } from '../../rights/heard.ts'
import type { WaitingClock } from '../../rights/waiting.ts'
import type { Clock } from '../../stages/authenticate/clock.ts'
import { answerLimitBytes } from '../../stages/consult/answer.ts'
import { type AskAgain, type Consult, createConsult, type FollowQuestion } from '../../stages/consult/consult.ts'
import {
  createDecisionPoint,
  type DecisionPoint,
  type PdpOutcome,
  type Post,
} from '../../stages/consult/decision-point.ts'
import { createDiscovery } from '../../stages/consult/discovery.ts'
import { createHeardSince } from '../../stages/consult/held-answers.ts'

export type DecisionPoints = Readonly<{
  consult: Consult
  askAgain: AskAgain
  recheckMsOf: ReturnType<typeof createConsult>['recheckMsOf']
  shareOf: ReturnType<typeof createConsult>['shareOf']
  noteTable: () => void
  stop: () => Promise<void>
}>

export type DecisionPointDependencies = Readonly<{
  log: Pick<Log, 'warn'>
  metrics: Pick<Metrics, 'countPdpQuestion' | 'observePdp' | 'watchPdp' | 'countCacheRead' | 'watchCacheSizes'>
  now: Clock['now']
  monotonicMs: Clock['monotonicMs']
  follow?: FollowQuestion | undefined
  /** The log that the open exchanges write. Without it nothing is heard, and answers are held for `factMs` at most. */
  heard?: HeardLog
}>

export function openDecisionPoints(
  { decisionPoints, cache }: Pick<Configuration, 'decisionPoints' | 'cache'>,
  knownAt: (readAtMs: number) => number,
  { log, metrics, now, monotonicMs, heard = new HeardLog(), follow }: DecisionPointDependencies,
): DecisionPoints {
  // A reload may change what a route asks and of which decision point, so no answer outlives the routes it was given for.
  let generation = 0
  const heardSince = createHeardSince(heard, monotonicMs, knownAt)
  const clock = { now, monotonicMs, after }
  const clients: Readonly<{ close: () => Promise<void> }>[] = []
  const open = (name: string, settings: DecisionPointSettings): DecisionPoint => {
    const observe = metrics.observePdp(name)
    const { post, close } = openPost(settings, clock)
    clients.push({ close })
    const report = createReport(name, log, monotonicMs)
    const point = createDecisionPoint({
      ...settings,
      post: timed(post, observe, monotonicMs),
      maxEntries: cache.maxEntries,
      heardSince,
      heardPosition: () => heard.position,
      clock,
      onRead: (result) => metrics.countCacheRead('decisions', result),
      onOutcome: (outcome, error) => {
        metrics.countPdpQuestion(name, outcome)
        report(outcome, error)
      },
    })
    metrics.watchPdp(name, point.countWaiting)
    return point
  }
  const points = new Map(Object.entries(decisionPoints).map(([name, settings]) => [name, open(name, settings)]))
  if (points.size > 0)
    metrics.watchCacheSizes(() => ({
      decisions: [...points.values()].reduce((sum, { countHeld }) => sum + countHeld(), 0),
    }))
  return {
    ...createConsult({ points, generation: () => generation, follow }),
    noteTable: () => {
      generation += 1
    },
    stop: async () => {
      await Promise.all(clients.map(({ close }) => close()))
    },
  }
}

const after: Clock['after'] = (ms, work) => {
  const timer = setTimeout(guarded('timer', work), ms)
  return () => clearTimeout(timer)
}

function openPost({ url, tls, headers, maxInFlight, discover }: DecisionPointSettings, clock: WaitingClock) {
  const { origin, pathname } = new URL(url)
  const base = `${pathname.replace(/\/$/, '')}/access/v1/`
  const sent = { ...headers, accept: 'application/json' }
  const readCa = tls && (async () => (tls.ca.file === undefined ? tls.ca.text : readFile(tls.ca.file, 'utf8')))
  const client = openKeptClient(origin, { readCa, connections: maxInFlight })
  const ask = (path: string, body: string | undefined, withinMs: number) => {
    const own = body === undefined ? sent : { ...sent, 'content-type': 'application/json' }
    return client.ask(path, own, body, { withinMs, limitBytes: answerLimitBytes })
  }
  const discovery =
    discover && createDiscovery({ ...clock, url, ask: (path, withinMs) => ask(path, undefined, withinMs) })
  const post: Post = async (endpoint, body, withinMs) => {
    if (!discovery) return ask(`${base}${endpoint}`, body, withinMs)
    const startedMs = clock.monotonicMs()
    const path = await discovery.find(endpoint, withinMs)
    return ask(path, body, Math.max(1, withinMs - (clock.monotonicMs() - startedMs)))
  }
  if (discovery) discovery.refresh()
  return { post, close: client.close }
}

const timed =
  (post: Post, observe: (ms: number) => void, monotonicMs: () => number): Post =>
  async (...question) => {
    const startedMs = monotonicMs()
    try {
      return await post(...question)
    } finally {
      observe(monotonicMs() - startedMs)
    }
  }

/** Each request fails while a decision point is down; the metric counts each. */
const warnEveryMs = 10_000

function createReport(pdp: string, log: DecisionPointDependencies['log'], monotonicMs: () => number) {
  let warnedAtMs = Number.NEGATIVE_INFINITY
  let failures = 0
  return (outcome: PdpOutcome, error: GatewayError | undefined): void => {
    if (!error) return
    failures += 1
    if (monotonicMs() - warnedAtMs < warnEveryMs) return
    warnedAtMs = monotonicMs()
    log.warn({ pdp, outcome, failures, error: describeError(error.cause ?? error) }, 'decision point gave no decision')
    failures = 0
  }
}
