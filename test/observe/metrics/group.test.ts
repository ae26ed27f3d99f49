import t from 'tap'
import { gaugeAggregators } from '../../../gateway/observe/metrics/combine.ts'
import { createGroupMetrics, type GroupMetrics } from '../../../gateway/observe/metrics/group.ts'
import { createMetrics, type Metrics } from '../../../gateway/observe/metrics/metrics.ts'

/** A snapshot as it arrives over a worker's channel: plain data. */
const sendSnapshot = async ({ snapshot }: Metrics) => JSON.parse(JSON.stringify(await snapshot()))

async function read(group: GroupMetrics, name: string): Promise<readonly string[]> {
  const text = await group.text(await createMetrics().snapshot())
  return text.split('\n').filter((line) => line.startsWith(name))
}

t.test('every gauge says how the values of several workers become one', async (t) => {
  const gauges = (await createMetrics().snapshot()).filter(({ type }) => String(type) === 'gauge')
  const missing = gauges.map(({ name }) => name).filter((name) => !(name in gaugeAggregators))
  t.ok(gauges.length > 20, 'the gauges were found')
  t.same(missing, [], 'each has a line in gaugeAggregators: a sum is seldom what is meant')
})

t.test('counters and histograms add up; of ages the highest counts, of limits the lowest', async (t) => {
  const group = createGroupMetrics()
  for (const [pid, ageMs, inFlight] of [
    [1, 4_000, 3],
    [2, 9_000, 4],
  ] as const) {
    const metrics = createMetrics()
    metrics.countRequest('open', 'GET', 200, 0.004)
    metrics.watchJwksAge('https://issuer', () => ageMs)
    metrics.watchInFlight(() => inFlight)
    group.note(pid, await sendSnapshot(metrics))
  }
  t.same(await read(group, 'sallyport_requests_total'), [
    'sallyport_requests_total{route="open",method="GET",status="200"} 2',
  ])
  t.same(await read(group, 'sallyport_request_duration_seconds_bucket{le="0.005"'), [
    'sallyport_request_duration_seconds_bucket{le="0.005",route="open"} 2',
  ])
  t.same(await read(group, 'sallyport_jwks_age_seconds'), ['sallyport_jwks_age_seconds{issuer="https://issuer"} 9'])
  t.same(await read(group, 'sallyport_requests_in_flight'), ['sallyport_requests_in_flight 7'])
  const [limit = ''] = await read(group, 'process_max_fds ')
  const own = (await createMetrics().text()).split('\n').find((line) => line.startsWith('process_max_fds '))
  t.equal(limit, own ?? '', 'a limit of each process is not added up')
})

t.test('after a worker has died its counters stay and its gauges go', async (t) => {
  const group = createGroupMetrics()
  for (const pid of [1, 2, 3]) {
    const metrics = createMetrics()
    metrics.countMalformed('target_malformed')
    metrics.countRequest('open', 'GET', 200, 0.004)
    metrics.watchInFlight(() => 5)
    group.note(pid, await sendSnapshot(metrics))
  }
  const before = await read(group, 'sallyport_request_duration_seconds')
  group.retire(1)
  group.retire(2)
  group.retire(4)
  t.same(await read(group, 'sallyport_malformed_requests_total'), [
    'sallyport_malformed_requests_total{reason="target_malformed"} 3',
  ])
  t.same(new Set(await read(group, 'sallyport_request_duration_seconds')), new Set(before))
  t.same(await read(group, 'sallyport_requests_in_flight'), ['sallyport_requests_in_flight 5'])
})

t.test('newer numbers of a worker replace its older ones', async (t) => {
  const group = createGroupMetrics()
  const metrics = createMetrics()
  metrics.countMalformed('target_malformed')
  group.note(1, await sendSnapshot(metrics))
  metrics.countMalformed('target_malformed')
  group.note(1, await sendSnapshot(metrics))
  t.same(await read(group, 'sallyport_malformed_requests_total'), [
    'sallyport_malformed_requests_total{reason="target_malformed"} 2',
  ])
})

t.test('workers and their restarts are counted', async (t) => {
  const group = createGroupMetrics()
  t.same(await read(group, 'sallyport_worker_restarts_total'), ['sallyport_worker_restarts_total 0'])
  group.watchWorkers(() => 2)
  group.countRestart()
  t.same(await read(group, 'sallyport_workers'), ['sallyport_workers 2'])
  t.same(await read(group, 'sallyport_worker_restarts_total'), ['sallyport_worker_restarts_total 1'])
})
