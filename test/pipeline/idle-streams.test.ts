import t, { type Test } from 'tap'
import { divideCost } from '../bench/measure-streams.ts'
import { leave, openCrowd } from '../support/crowd.ts'
import { startCrowdUpstream } from '../support/crowd-upstream.ts'
import { until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { findMeasureLack, measurable, readSettledFigures } from '../support/process-figures.ts'
import { startReplica } from '../support/replicas.ts'
import { bearer, startTestWorld } from '../support/world.ts'

const count = 5_000

testUnlessLacking(t, `each of ${count} idle streams costs 20 KiB at most`, testIdle, findMeasureLack(2 * count))

async function testIdle(t: Test): Promise<void> {
  const world = await startTestWorld(t)
  const upstream = await startCrowdUpstream(t)
  const upstreams = { agents: { url: upstream.url } }
  const replica = await startReplica(t, { world, upstreams, settings: { log: { level: 'warn' } } }, measurable)
  const path = `/agent/${world.agents.acme}/responses`
  const headers = bearer(world.serviceAccounts.robot.apiKey)
  const open = (count: number) => openCrowd(t, { origin: replica.public, path, headers, count })

  // A few first: what it takes to serve streams at all is not theirs.
  leave(await open(200))
  await until(() => upstream.streams.size === 0, 'the end of the first streams', 20_000)
  const before = await readSettledFigures(replica)
  await open(count)
  t.equal(upstream.streams.size, count)
  const each = divideCost(before, await readSettledFigures(replica), count)
  t.comment(JSON.stringify(each))
  t.ok(each.heldBytes <= 20 * 1024, `${each.heldBytes} bytes`)
  // The steadier figure: half a dozen closures more for each stream are seen here.
  t.ok(each.heapBytes + each.externalBytes <= 16 * 1024, `${each.heapBytes} + ${each.externalBytes} bytes of V8`)
}
