import t, { type Test } from 'tap'
import { decisionPoints, type StartDecisionPoint } from '../support/decision-points.ts'
import { startTestGateway } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { faultNames, faultRoutes, linkDecisionPoint, measureFault, startCountingBackend } from './decision-faults.ts'

// How long the answers take is measured by `npm run bench:decisions`, on a machine that does nothing else.

const requests = 1_000

async function tryFaults(t: Test, start: StartDecisionPoint): Promise<void> {
  const world = await startTestWorld(t)
  const { member } = world.users
  const backend = await startCountingBackend(t)
  const real = await start(t, member.id, world.objects.files.acme)
  const { link, settings } = await linkDecisionPoint(t, real)
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: backend.url } },
    settings: { decisionPoints: settings },
    routes: faultRoutes,
  })
  const fixture = { real, link, backend, gateway: gateway.public, headers: oauth(member) }
  for (const fault of faultNames) {
    const { unproven, during, permittedAfter, ...figures } = await measureFault(t, fixture, fault, requests)
    t.comment(fault, { during, permittedAfter, ...figures, millis: undefined })
    t.equal(unproven, 0, `${fault}: nothing reached the backend without a yes`)
    t.ok(during >= requests, `${fault}: requests of the fault`)
    t.ok(permittedAfter > 0, `${fault}: permits afterwards`)
  }
}

for (const { name, start, lack } of decisionPoints)
  testUnlessLacking(t, `${name} that is killed, frozen, slow or garbled`, (t) => tryFaults(t, start), lack)
