import t from 'tap'
import type { ShadowTable } from '../../../gateway/analyze/shadow/compare.ts'
import { observeShadow } from '../../../gateway/analyze/shadow/record-differences.ts'
import { createReport, type Difference } from '../../../gateway/analyze/shadow/report.ts'
import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import { loadConfiguration } from '../../../gateway/configuration/configuration.ts'
import type { Exchange } from '../../../gateway/http/exchange.ts'
import { createMetrics } from '../../../gateway/observe/metrics/metrics.ts'
import type { RequestObserver } from '../../../gateway/observe/request-record.ts'
import { startShadow } from '../../../gateway/run/reload/shadow.ts'
import { readTarget } from '../../../gateway/stages/receive/target.ts'
import { compileRoutes } from '../../../gateway/stages/route/table.ts'
import { writeConfiguration } from '../../support/gateway.ts'
import { parseTable } from '../../support/policy-table.ts'

const exchange = {} as Exchange // an observer's own affair
const headers = { organizationId: [], cookie: [], passing: [] }
const target = readTarget('GET', '/a', 'h')

const silent: RequestObserver = {
  onClient: () => undefined,
  onTarget: () => undefined,
  onMatch: () => undefined,
  onPrincipal: () => undefined,
  onOrganization: () => undefined,
  onResource: () => undefined,
  onAllowed: () => undefined,
  onUpstream: () => undefined,
  onSettled: () => undefined,
  onRefusal: () => undefined,
  onUnrecorded: () => undefined,
  onUpstreamRequestId: () => undefined,
  onBug: () => undefined,
  onStreamFailure: () => undefined,
}

const tableOf = (...routes: readonly string[]): ShadowTable => {
  const policy = parseTable({ routes })
  return { table: compileRoutes(policy.routes), roles: policy.roles }
}

/** An observer beside which a table listens, and what it reported. */
function listen(shadow: ShadowTable | undefined, observer: RequestObserver = silent) {
  const reports: Difference[] = []
  const observe = observeShadow(
    () => shadow,
    (difference) => void reports.push(difference),
  )
  const begun = observe(observer, exchange, 'id')
  return { observer: begun, kinds: () => reports.map(({ kind }) => kind) }
}

t.test('a decision is compared once, when it stands', async (t) => {
  const live = tableOf('/a GET access: public')
  const { observer, kinds } = listen(tableOf('/a POST'))
  observer.onTarget(target, 'h', headers)
  observer.onMatch(live.table.match(target, 'h'))
  t.same(kinds(), [])
  observer.onAllowed()
  t.same(kinds(), ['lost'])
  // The upstream failed afterwards; the decision was another thing.
  observer.onRefusal(new GatewayError('resource_unknown'))
  t.same(kinds(), ['lost'])
})

t.test('internal errors, malformed targets and preflights do not count as differences', async (t) => {
  const outage = listen(tableOf('/a GET access: public'))
  outage.observer.onTarget(target, 'h', headers)
  outage.observer.onRefusal(new GatewayError('directory_unavailable'))
  const malformed = listen(tableOf('/a GET access: public'))
  malformed.observer.onRefusal(new GatewayError('target_empty_segment'))
  const preflight = listen(tableOf('/b GET'))
  preflight.observer.onTarget(target, 'h', headers)
  preflight.observer.onAllowed()
  t.same([outage.kinds(), malformed.kinds(), preflight.kinds()], [[], [], []])
})

t.test('a shadow that breaks is told of, and the request goes its way', async (t) => {
  const broken: ShadowTable = {
    roles: tableOf('/a GET').roles,
    table: {
      match: () => {
        throw new TypeError('a bug')
      },
      find: () => undefined,
      methodsAt: () => undefined,
    },
  }
  const { observer, kinds } = listen(broken)
  observer.onTarget(target, 'h', headers)
  observer.onRefusal(new GatewayError('route_not_found'))
  t.same(kinds(), ['failed'])
})

t.test('a report that breaks does not reach the request', async (t) => {
  const report = () => {
    throw new Error('no log')
  }
  const observe = observeShadow(() => tableOf('/a GET access: public'), report)
  const begun = observe(silent, exchange, 'id')
  begun.onTarget(target, 'h', headers)
  t.doesNotThrow(() => begun.onRefusal(new GatewayError('route_not_found')))
})

t.test('without a table to ask the observer is the live one itself', async (t) => {
  t.equal(listen(undefined).observer, silent)
  const configuration = loadConfiguration(writeConfiguration(t, {}), {})
  const metrics = createMetrics()
  const log = {
    request: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
  }
  const times = { now: () => new Date(0), monotonicMs: () => 0 }
  const { observe } = startShadow(configuration, { inForce: () => [], log, metrics, ...times })
  t.equal(observe(silent, exchange, 'id'), silent)
})

t.test(
  'every difference is counted, and one of each sort in ten seconds is written down, without its query',
  async (t) => {
    const lines: unknown[] = []
    const counts: string[] = []
    let nowMs = 0
    const report = createReport({
      log: {
        request: () => undefined,
        info: (fields, message) => void lines.push({ ...fields, message }),
        warn: () => undefined,
        error: (fields, message) => void lines.push({ ...fields, message }),
      },
      metrics: { countShadowDifference: (route, kind) => void counts.push(`${route} ${kind}`) },
      monotonicMs: () => nowMs,
    })
    const facts = {
      target: readTarget('GET', '/a?token=secret', 'h'),
      host: 'h',
      headers,
      match: undefined,
      principal: undefined,
      resource: undefined,
    }
    const lost = {
      kind: 'lost',
      facts,
      requestId: 'id',
      live: { route: 'r', outcome: 'allowed' },
      shadow: { route: 's', outcome: 'role_insufficient' },
    } as const
    for (const atMs of [0, 1, 9_999, 10_000]) {
      nowMs = atMs
      report(lost)
    }
    report({ ...lost, kind: 'gained', live: { route: undefined, outcome: 'route_not_found' } })
    report({ kind: 'failed', facts, requestId: 'id', live: lost.live, error: new TypeError('a bug') })
    t.same(counts, ['r lost', 'r lost', 'r lost', 'r lost', 'none gained', 'r failed'])
    t.equal(lines.length, 4)
    t.match(lines[0], {
      kind: 'lost',
      method: 'GET',
      path: '/a',
      route: 'r',
      live: 'allowed',
      shadowRoute: 's',
      shadow: 'role_insufficient',
    })
    t.match(lines[3], { kind: 'failed', error: { name: 'TypeError' }, message: 'shadow policy failed' })
    t.notMatch(JSON.stringify(lines), /secret/)
  },
)
