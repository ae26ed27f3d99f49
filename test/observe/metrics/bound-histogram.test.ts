import { Histogram, Registry } from 'prom-client'
import t from 'tap'
import { createBoundHistogram } from '../../../gateway/observe/metrics/bound-histogram.ts'
import { createGroupMetrics } from '../../../gateway/observe/metrics/group.ts'
import { createMetrics } from '../../../gateway/observe/metrics/metrics.ts'

const buckets = [0.001, 0.01, 0.1]

t.test('a bound histogram prints the same text as one of prom-client', async (t) => {
  const [ours, theirs] = [new Registry(), new Registry()]
  const described = { name: 'x_seconds', help: 'Some time.', buckets }
  const bound = createBoundHistogram({ ...described, registers: [ours] })
  const histogram = new Histogram({ ...described, labelNames: ['stage'], registers: [theirs] })
  for (const stage of ['a', 'b']) {
    const observeMs = bound.bind({ stage })
    histogram.zero({ stage })
    // On a bound, between two, and beyond the last.
    for (const ms of stage === 'a' ? [0, 1, 1.5, 10, 100, 250] : []) {
      observeMs(ms)
      histogram.observe({ stage }, ms / 1_000)
    }
  }
  t.equal(await ours.metrics(), await theirs.metrics())
})

t.test('histograms of several workers add up, and stay when a worker dies', async (t) => {
  const group = createGroupMetrics()
  for (const pid of [1, 2]) {
    const metrics = createMetrics()
    metrics.observeStage.decide(0.2)
    metrics.watchUpstream('platform').answered(200, 3)
    metrics.watchUpstream(`cluster:${pid}`).failed('upstream_timeout')
    metrics.watchPool(() => ({ open: 4, idle: 1, waiting: 0 }), 10)
    group.note(pid, JSON.parse(JSON.stringify(await metrics.snapshot())))
  }
  const read = async (): Promise<string> => group.text(await createMetrics().snapshot())
  const text = await read()
  for (const line of [
    /^sallyport_stage_duration_seconds_bucket\{le="0.00025",stage="decide"\} 2$/m,
    /^sallyport_upstream_requests_total\{upstream="platform",outcome="2xx"\} 2$/m,
    /^sallyport_upstream_first_byte_seconds_sum\{upstream="platform"\} 0.006$/m,
    // All clusters share a label value: otherwise each one would make a time series of its own.
    /^sallyport_upstream_requests_total\{upstream="cluster",outcome="upstream_timeout"\} 2$/m,
    /^sallyport_database_connections\{state="busy"\} 6$/m,
    /^sallyport_database_connections_limit 20$/m,
  ])
    t.match(text, line)
  t.notMatch(text, /cluster:/)
  group.retire(1)
  t.match(await read(), /^sallyport_stage_duration_seconds_count\{stage="decide"\} 2$/m)
  t.match(await read(), /^sallyport_database_connections_limit 10$/m)
})
