import t from 'tap'
import { GatewayError } from '../../gateway/errors/gateway-error.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { createMetrics } from '../../gateway/observe/metrics/metrics.ts'
import { type Stage, stages } from '../../gateway/observe/metrics/stages.ts'
import { observeStages } from '../../gateway/observe/stage-trails.ts'
import type { Trail } from '../../gateway/observe/trail.ts'

/** Every fact is nothing here: what counts is that it is told, and when. */
const quiet = new Proxy({}, { get: () => () => undefined }) as Trail
const nothing = undefined as never

/** A trail whose clock only goes on when it is told to, and what it observed. */
function follow(): Readonly<{
  trail: Trail
  after: (ms: number) => Trail
  seen: readonly string[]
  failures: readonly string[]
  reads: () => number
}> {
  let nowMs = 0
  let reads = 0
  const seen: string[] = []
  const failures: string[] = []
  const observers = stages.map((stage) => [stage, (ms: number) => seen.push(`${stage} ${ms}`)] as const)
  const observeStage = Object.fromEntries(observers) as unknown as Record<Stage, (ms: number) => void>
  const clock = () => {
    reads += 1
    return nowMs
  }
  const observe = observeStages({ observeStage, countFailure: (code) => failures.push(code) }, clock)
  const trail = observe(quiet, {} as Exchange, 'id')
  const after = (ms: number): Trail => {
    nowMs += ms
    return trail
  }
  return { trail, after, seen, failures, reads: () => reads }
}

t.test('each stage is timed from the end of the one before, by one reading of the clock', async (t) => {
  const { after, seen, failures, reads } = follow()
  after(1).matched(nothing)
  after(2).authenticated(nothing)
  after(3).resolved(nothing)
  after(4).found(nothing)
  after(5).allowed()
  after(6).located(nothing)
  after(7).settled()
  // What the upstream takes is no stage of ours.
  after(100).refused(new GatewayError('upstream_timeout'))
  t.same(seen, ['route 1', 'authenticate 2', 'resolve 3', 'resource 4', 'decide 5', 'locate 6', 'pin 7'])
  t.equal(reads(), 1 + stages.length)
  t.same(failures, ['upstream_timeout'])
})

t.test('a refusal ends the stage in which it came', async (t) => {
  const { after, seen, failures } = follow()
  after(1).matched(nothing)
  after(700).refused(new GatewayError('directory_unavailable'))
  t.same(seen, ['route 1', 'authenticate 700'])
  t.same(failures, [], 'what was never allowed is a decision')
})

t.test(
  'a public route is not authenticated, a preflight is not routed, an endpoint of ours has no upstream',
  async (t) => {
    const open = follow()
    open.after(1).matched(nothing)
    open.after(2).allowed()
    open.after(3).settled()
    t.same(open.seen, ['route 1', 'decide 2'])
    const preflight = follow()
    preflight.after(1).allowed()
    preflight.after(2).settled()
    t.same(preflight.seen, ['route 1'])
  },
)

t.test('the metrics of a gateway know every stage', async (t) => {
  const { text, observeStage } = createMetrics()
  for (const stage of stages) observeStage[stage](1)
  for (const stage of stages) t.match(await text(), `sallyport_stage_duration_seconds_count{stage="${stage}"} 1`)
})
