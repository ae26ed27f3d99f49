import t from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { type ProxyName, testProxy } from '../integrate/ingress/programs.ts'
import { startBareNginx, startStock } from '../integrate/ingress/stock.ts'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { startTestWorld } from '../support/world.ts'
import { startForgeryFixture } from './decision-forgeries.ts'

// The forgeries of `decision-host.test.ts`, through each proxy itself.
const { gateway, member, administrator, testForgeries } = await startForgeryFixture(t, await startTestWorld(t))

const proxies: readonly ProxyName[] = ['traefik', 'caddy', 'nginx', 'haproxy', 'envoy']
for (const name of proxies)
  testProxy(t, name, async (t, program) => {
    const backend = await startHttpUpstream(t)
    const places = {
      front: await findFreePort(),
      public: Number(new URL(gateway.public).port),
      decision: Number(new URL(gateway.decision).port),
      backend: Number(new URL(backend.url).port),
    }
    await startStock[name](t, program, places)
    const front = `http://127.0.0.1:${places.front}`
    // Traefik listens before it knows where to.
    await until(async () => (await call(front, { path: '/x', headers: member })).status === 200, 'it leads somewhere')
    await testForgeries(t, async (request) => {
      const before = backend.ids().length
      const { status } = await call(front, request)
      t.equal(backend.ids().length - before, status === 200 ? 1 : 0, 'the backend sees what was allowed, alone')
      return status
    })
  })

testProxy(t, 'nginx', async (t, program) => {
  const backend = await startHttpUpstream(t)
  const front = await findFreePort()
  const places = { front, public: 1, decision: Number(new URL(gateway.decision).port), backend: 1 }
  await startBareNginx(t, program, { ...places, backend: Number(new URL(backend.url).port) })
  const answer = await call(`http://127.0.0.1:${front}`, { path: '/x', headers: administrator })
  t.equal(answer.status, 403, 'without a method nothing passes, so that its lack is seen')
})
