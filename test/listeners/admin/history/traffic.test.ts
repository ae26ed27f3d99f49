import t from 'tap'
import { slotMs } from '../../../../gateway/listeners/admin/history/slot-ring.ts'
import { columns, mergeTraffic, readPercentile, Traffic } from '../../../../gateway/listeners/admin/history/traffic.ts'

const range = { toSlot: 10, slots: 60, step: 1 }

t.test('requests, refusals and failures are counted for the whole, the route and the cause', async (t) => {
  const traffic = new Traffic()
  for (let count = 0; count < 4; count++) traffic.countRequest(10, 'r')
  traffic.countRefused(10, 'r', 'unauthenticated')
  traffic.countFailed(10, 'r', 'upstream_500')
  const { total, routes, causes } = traffic.read(range)
  t.same(total.recent.slice(0, 3), [4, 1, 1])
  t.match(routes, [{ name: 'r', recent: [4, 1, 1] }])
  t.match(causes, [
    { name: 'unauthenticated', recent: [1, 0] },
    { name: 'upstream_500', recent: [0, 1] },
  ])
})

t.test('calls of an upstream are counted by their ends, and those that wait with their silence', async (t) => {
  const traffic = new Traffic()
  const upstream = traffic.upstream('u')
  t.equal(traffic.upstream('u'), upstream)
  const atMs = 10 * slotMs
  for (let count = 0; count < 6; count++) upstream.begin(atMs)
  upstream.answered(200, 3, atMs)
  upstream.answered(503, 3, atMs)
  upstream.answered(501, 3, atMs)
  upstream.failed('upstream_timeout', 5_000, atMs + 1)
  upstream.abandoned()
  const [reading] = traffic.read(range).upstreams
  t.match(reading, { name: 'u', waiting: 1, settledMs: atMs + 1 })
  t.same(reading?.recent.slice(0, 5), [4, 0, 2, 0, 1])
})

t.test('a percentile is read from the buckets', async (t) => {
  const traffic = new Traffic()
  t.equal(readPercentile(traffic.read(range).total.recent, 0.5), undefined)
  for (let count = 0; count < 99; count++) traffic.observeLatency(10, 'r', 1)
  traffic.observeLatency(10, 'r', 60_000)
  const { recent } = traffic.read(range).total
  t.ok((readPercentile(recent, 0.5) ?? 9) <= 2)
  t.equal(readPercentile(recent, 1), 30_000)
})

t.test('names that multiply take the place of those that are quiet', async (t) => {
  const traffic = new Traffic()
  traffic.upstream('cluster:0').begin(0)
  for (let id = 1; id < 1_000; id++) {
    const upstream = traffic.upstream(`cluster:${id}`)
    upstream.begin(id * slotMs)
    upstream.answered(200, 1, id * slotMs)
  }
  const { upstreams } = traffic.read({ toSlot: 999, slots: 360, step: 1 })
  t.equal(upstreams.length, 96)
  t.equal(upstreams.at(-1)?.name, 'cluster:999')
})

t.test('the traffic of several processes adds up by names', async (t) => {
  const [one, other] = [new Traffic(), new Traffic()]
  for (const traffic of [one, other]) {
    traffic.countRequest(10, 'r')
    traffic.upstream('u').begin(1_000)
  }
  other.countRequest(10, 'only here')
  const merged = mergeTraffic([one.read(range), other.read(range)])
  t.equal(merged.total.recent[columns.requests], 3)
  t.match(merged.routes, [
    { name: 'r', recent: [2] },
    { name: 'only here', recent: [1] },
  ])
  t.match(merged.upstreams, [{ name: 'u', waiting: 2, settledMs: 1_000 }])
})
