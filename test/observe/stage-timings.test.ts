import t from 'tap'
import { GatewayError } from '../../gateway/base/errors/gateway-error.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { createMetrics } from '../../gateway/observe/metrics/metrics.ts'
import { type Stage, stages } from '../../gateway/observe/metrics/stages.ts'
import type { RequestObserver } from '../../gateway/observe/request-record.ts'
import { observeStages } from '../../gateway/observe/stage-timings.ts'

/** Every fact is nothing here: what counts is that it is told, and when. */
const quiet = new Proxy({}, { get: () => () => undefined }) as RequestObserver
const nothing = undefined as never

/** An observer whose clock only goes on when it is told to, and what it observed. */
function follow(): Readonly<{
  observer: RequestObserver
  after: (ms: number) => RequestObserver
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
  const observer = observe(quiet, {} as Exchange, 'id')
  const after = (ms: number): RequestObserver => {
    nowMs += ms
    return observer
  }
  return { observer, after, seen, failures, reads: () => reads }
}

t.test('each stage is timed from the end of the one before, by one reading of the clock', async (t) => {
  const { after, seen, failures, reads } = follow()
  after(1).onMatch(nothing)
  after(2).onPrincipal(nothing)
  after(3).onOrganization(nothing)
  after(4).onResource(nothing)
  after(5).onAllowed()
  after(6).onUpstream(nothing)
  // Its header is signed when the head is written, which is timed there.
  after(7).onSettled()
  // The upstream's time does not belong to a stage of the gateway.
  after(100).onRefusal(new GatewayError('upstream_timeout'))
  t.same(seen, ['route 1', 'authenticate 2', 'resolve 3', 'resource 4', 'decide 5', 'locate 6'])
  t.equal(reads(), stages.length)
  t.same(failures, ['upstream_timeout'])
})

t.test('a refusal ends the stage in which it came', async (t) => {
  const { after, seen, failures } = follow()
  after(1).onMatch(nothing)
  after(700).onRefusal(new GatewayError('directory_unavailable'))
  t.same(seen, ['route 1', 'authenticate 700'])
  t.same(failures, [], 'what was never allowed is a decision')
})

t.test(
  'a public route is not authenticated, a preflight is not routed, an endpoint of the gateway has no upstream',
  async (t) => {
    const open = follow()
    open.after(1).onMatch(nothing)
    open.after(2).onAllowed()
    open.after(3).onSettled()
    t.same(open.seen, ['route 1', 'decide 2'])
    const preflight = follow()
    preflight.after(1).onAllowed()
    preflight.after(2).onSettled()
    t.same(preflight.seen, ['route 1'])
  },
)

t.test('the metrics of a gateway know every stage', async (t) => {
  const { text, observeStage } = createMetrics()
  for (const stage of stages) observeStage[stage](1)
  for (const stage of stages) t.match(await text(), `sallyport_stage_duration_seconds_count{stage="${stage}"} 1`)
})
