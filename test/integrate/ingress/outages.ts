import type { Test } from 'tap'
import { until } from '../../support/gateway.ts'
import { oauth } from '../../support/world.ts'
import type { IngressFixture } from './fixture.ts'
import type { Manners } from './scenes.ts'

/** An outage lets no request through. */
export function testOutages(t: Test, fixture: IngressFixture, { gatewayDown, backendDown }: Manners): void {
  const headers = oauth(fixture.world.users.member)

  t.test('without the gateway nothing passes', async (t) => {
    fixture.gateway.cut()
    for (const path of ['/datasets', '/public/x', '/status', '/users/me']) {
      const { answer, arrivals } = await fixture.front.ask({ path, headers })
      t.equal(answer.status, path === '/users/me' ? gatewayDown.public : gatewayDown.decision, path)
      t.same(arrivals, [], path)
    }
    fixture.gateway.mend()
    const isBack = async () => (await fixture.front.ask({ path: '/datasets', headers })).answer.status === 200
    await until(isBack, 'the gateway is asked again', 20_000)
  })

  t.test('a backend that cannot be reached is told of', async (t) => {
    fixture.backendWire.cut()
    const { answer } = await fixture.front.ask({ path: '/datasets', headers })
    t.equal(answer.status, backendDown)
    fixture.backendWire.mend()
    const isBack = async () => (await fixture.front.ask({ path: '/datasets', headers })).answer.status === 200
    await until(isBack, 'the backend is reached again', 20_000)
  })
}
