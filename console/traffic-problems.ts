import type { ClusterStates } from '../gateway/listeners/admin/cluster-state.ts'
import type { CallerReading } from '../gateway/listeners/admin/history/callers.ts'
import type { HistoryReading } from '../gateway/listeners/admin/history/history.ts'
import { slotMs } from '../gateway/listeners/admin/history/slot-ring.ts'
import {
  causeColumns,
  columns,
  type NamedRing,
  nameCode,
  readPercentile,
} from '../gateway/listeners/admin/history/traffic.ts'
import { amount, formatMs, percent } from './format.ts'
import type { MetricsReader } from './metrics-reader.ts'
import { readEventLoopLagMs } from './overview.ts'
import type { ConsoleProblem } from './problems.ts'
import { failingShare, type UpstreamHealth } from './upstreams.ts'

export type Evidence = Readonly<{
  history: HistoryReading
  upstreams: readonly UpstreamHealth[]
  destinations: ReadonlyMap<string, string>
  clusters: ClusterStates | undefined
  figures: MetricsReader
}>

export const listTrafficProblems = (evidence: Evidence): readonly ConsoleProblem[] => {
  const found = [...findOwnFailures(evidence), ...findUpstreams(evidence)]
  return [...found, ...findRoutes(evidence, found), ...findSurge(evidence), ...findOverload(evidence)]
}

const read = ({ recent }: Pick<NamedRing, 'recent'>, column: number): number => recent[column] ?? 0

const failureAlerts: Readonly<Record<string, string>> = {
  internal: 'SallyportInternalErrors',
  directory_unavailable: 'SallyportDatabaseFailing',
  directory_read_only: 'SallyportDatabaseStandby',
  lookups_busy: 'SallyportUnauthenticatedSurge',
  audit_unavailable: 'SallyportAuditSinkDown',
  rate_limit_unavailable: 'SallyportRateLimitsUncounted',
  issuer_unavailable: 'SallyportIssuerUnavailable',
  cluster_offline: 'SallyportClustersOffline',
}

const isOfUpstream = (cause: string): boolean => cause.startsWith('upstream_')

function findOwnFailures({ history: { traffic }, clusters }: Evidence): readonly ConsoleProblem[] {
  const requests = read(traffic.total, columns.requests)
  return traffic.causes.flatMap((cause) => {
    const failed = read(cause, causeColumns.failed)
    if (failed === 0 || failed / requests < failingShare || isOfUpstream(nameCode(cause.name))) return []
    const offline = nameCode(cause.name) === 'cluster_offline' ? listOffline(clusters) : ''
    return {
      name: nameOwn(cause.name),
      finding: `${amount(failed)} requests failed in the last minute, ${percent(failed, requests)} of all${offline}`,
      alert: failureAlerts[nameCode(cause.name)] ?? 'SallyportErrorBudgetFastBurn',
    }
  })
}

const nameOwn = (cause: string): string => (nameCode(cause) === cause ? cause : `${nameCode(cause)} (${cause})`)

function listOffline(states: ClusterStates | undefined): string {
  const names = states?.clusters.filter(({ state }) => state === 'offline').map(({ id, slug }) => `${id} (${slug})`)
  return names && names.length > 0 ? `; offline: ${names.slice(0, 5).join(', ')}` : ''
}

function findUpstreams(evidence: Evidence): readonly ConsoleProblem[] {
  return evidence.upstreams.flatMap((upstream): readonly ConsoleProblem[] => {
    const { label, isGood, calls, word } = upstream
    const name = label.startsWith('cluster ') ? label : `upstream ${label}`
    if (isGood !== false) return findSlow(name, upstream)
    const failed = read(calls, columns.failed)
    const route = failed > 0 ? findLoneRoute(upstream, evidence) : undefined
    const all = `${amount(failed)} of ${amount(read(calls, columns.requests))} calls in the last minute`
    const finding = failed > 0 ? `${word} (${all})` : word
    if (route === undefined) return [{ name, finding, alert: 'SallyportUpstreamFailing' }]
    return [{ name: `route ${route}`, finding: `${finding}, at ${name} alone`, alert: 'SallyportUpstreamFailing' }]
  })
}

function findLoneRoute({ name }: UpstreamHealth, { history, destinations }: Evidence): string | undefined {
  const routes = history.traffic.routes.filter((route) => destinations.get(route.name) === name)
  const active = routes.filter((route) => read(route, columns.requests) > 0)
  const failing = active.filter((route) => read(route, columns.failed) > 0)
  return failing.length === 1 && active.length > 1 ? failing[0]?.name : undefined
}

/** A slower call is slow even if it was usual; below it only a change counts. */
const leastSlowMs = 1_000
const unusualMs = 2_000
const slowFactor = 4
const leastCalls = 5
const leastCallsBefore = 20

function findSlow(name: string, { calls }: UpstreamHealth): readonly ConsoleProblem[] {
  const p90 = readPercentile(calls.recent, 0.9)
  if (p90 === undefined || read(calls, columns.requests) < leastCalls) return []
  const isKnown = (calls.before[columns.requests] ?? 0) >= leastCallsBefore
  const usual = isKnown ? readPercentile(calls.before, 0.9) : undefined
  const limit = usual === undefined ? unusualMs : Math.max(leastSlowMs, usual * slowFactor)
  if (p90 < limit) return []
  const before = usual === undefined ? '' : `; ${formatMs(usual)} in the ten minutes before`
  const finding = `is slow: one call in ten waits ${formatMs(p90)} or longer for the first byte${before}`
  return [{ name, finding, alert: 'SallyportStageSlow' }]
}

const leastFailures = 2
const routeShare = 0.1

function findRoutes({ history, destinations }: Evidence, found: readonly ConsoleProblem[]): readonly ConsoleProblem[] {
  const named = new Set(found.map(({ name }) => name))
  return history.traffic.routes.flatMap((route) => {
    const [requests, failed] = [read(route, columns.requests), read(route, columns.failed)]
    if (failed < leastFailures || failed / requests < routeShare) return []
    if (named.has(`route ${route.name}`) || named.has(`upstream ${destinations.get(route.name)}`)) return []
    // A failure at every route is listed by its cause, and a cluster by its name.
    if (found.length > 0 && !destinations.has(route.name)) return []
    if (found.some(({ name }) => (name.split(' ')[0] ?? '') in failureAlerts)) return []
    const finding = `${amount(failed)} of ${amount(requests)} requests failed in the last minute`
    return [{ name: `route ${route.name}`, finding, alert: 'SallyportErrorBudgetFastBurn' }]
  })
}

const leastRefusals = 30
const surgeFactor = 5
const surgeShare = 0.2
const minutesBefore = 10

const guesses = ['unauthenticated', 'too_many_attempts']

function findSurge({ history: { traffic, callers } }: Evidence): readonly ConsoleProblem[] {
  const requests = read(traffic.total, columns.requests)
  const groups = new Map<string, { recent: number; before: number }>()
  for (const cause of traffic.causes) {
    const code = nameCode(cause.name)
    const name = guesses.includes(code) ? 'invalid credentials' : code
    const group = groups.get(name) ?? { recent: 0, before: 0 }
    group.recent += read(cause, causeColumns.refused)
    group.before += cause.before[causeColumns.refused] ?? 0
    groups.set(name, group)
  }
  return [...groups].flatMap(([name, { recent, before }]) => {
    const usual = before / minutesBefore
    if (recent < leastRefusals || recent < usual * surgeFactor || recent / requests < surgeShare) return []
    const isGuessing = name === 'invalid credentials'
    const finding = `${amount(recent)} requests refused in the last minute, ${percent(recent, requests)} of all; ${amount(usual)} a minute before${nameLeader(callers)}`
    return [
      {
        name: isGuessing ? 'surge of invalid credentials' : `surge of ${name}`,
        finding,
        alert: 'SallyportUnauthenticatedSurge',
      },
    ]
  })
}

function nameLeader(callers: readonly CallerReading[]): string {
  const all = callers.reduce((sum, { refused }) => sum + refused, 0)
  const [leader] = [...callers].sort((one, other) => other.refused - one.refused)
  if (!leader || leader.refused < all / 5) return '; from many addresses'
  const name = typeof leader.caller === 'number' ? `user ${leader.caller}` : leader.caller
  return `; ${percent(leader.refused, all)} from ${name}`
}

const lagLimitMs = 250
const nearLimit = 0.9

function findOverload({ history: { traffic }, figures }: Evidence): readonly ConsoleProblem[] {
  const turnedAway = traffic.drops
    .filter(({ name }) => name === 'limit' || name === 'memory')
    .reduce((sum, ring) => sum + read(ring, 0), 0)
  const lagMs = readEventLoopLagMs(figures)
  const waiting = figures.sum('sallyport_database_waiting')
  const full = figures.all('sallyport_connections_open').filter(({ labels: { listener }, value }) => {
    const limit = figures.sum('sallyport_connections_limit', (labels) => labels.listener === listener)
    return limit > 0 && value >= limit * nearLimit
  })
  const drops = `${amount(turnedAway)} connections were turned away in the last minute`
  const waits = `${amount(waiting)} statements wait for one`
  return [
    ...(turnedAway > 0 ? [{ name: 'overload', finding: drops, alert: 'SallyportConnectionsRefused' }] : []),
    ...full.map(({ labels: { listener }, value }) => ({
      name: `${listener} listener`,
      finding: `is nearly full: ${amount(value)} connections are open`,
      alert: 'SallyportConnectionsNearLimit',
    })),
    ...(lagMs >= lagLimitMs
      ? [{ name: 'event loop', finding: `is ${formatMs(lagMs)} behind at p99`, alert: 'SallyportEventLoopLag' }]
      : []),
    ...(waiting > 0 && waiting >= figures.sum('sallyport_database_connections_limit')
      ? [{ name: 'database connections', finding: waits, alert: 'SallyportDatabasePoolExhausted' }]
      : []),
  ]
}

/** Failures before the last minute, so that an incident that is over stays visible. */
export function describeEarlier({ history: { traffic } }: Evidence): string | undefined {
  const failing = traffic.total.rows.filter(([, ...counts]) => {
    const [requests = 0, failed = 0] = [counts[columns.requests], counts[columns.failed]]
    return failed > 0 && failed / requests >= failingShare
  })
  const [first] = failing
  const last = failing.at(-1)
  if (!first || !last) return undefined
  const failed = failing.reduce((sum, row) => sum + (row[columns.failed + 1] ?? 0), 0)
  const requests = failing.reduce((sum, row) => sum + (row[columns.requests + 1] ?? 0), 0)
  return `In this range: ${amount(failed)} × 5xx or failed streams between ${formatSlot(first[0])} and ${formatSlot(last[0])} UTC, ${percent(failed, requests)} of the requests then.`
}

const formatSlot = (slot = 0): string => new Date(slot * slotMs).toISOString().slice(11, 19)
