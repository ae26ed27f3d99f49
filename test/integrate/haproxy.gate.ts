import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { overridingFamilies, overridingNames } from '../../gateway/stages/receive/override-headers.ts'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { type Places, placeExample, testShown, writeFolder } from './ingress/examples.ts'
import { startIngressFixture } from './ingress/fixture.ts'
import { type Program, testProxy } from './ingress/programs.ts'
import { testScenes } from './ingress/scenes.ts'
import { startProgram } from './ingress/start-program.ts'
import { startStock } from './ingress/stock.ts'

const world = await startTestWorld(t)

async function startHaproxy(t: Test, { path }: Program, places: Places): Promise<void> {
  const folder = writeFolder(t, { 'haproxy.cfg': placeExample('haproxy.cfg', places) })
  await startProgram(t, { path, args: ['-db', '-f', 'haproxy.cfg'], folder, port: places.front })
}

testShown(t, 'haproxy.md', ['haproxy.cfg'])

testProxy(t, 'haproxy', async (t, program) => {
  const fixture = await startIngressFixture(t, world, (t, places) => startHaproxy(t, program, places))
  // The gateway itself asks the backend.
  testScenes(t, fixture, {
    forwards: 'by the gateway',
    adds: [],
    gatewayDown: { decision: 503, public: 503 },
    backendDown: 503,
  })
})

testProxy(t, 'haproxy', async (t, program) => {
  const fixture = await startIngressFixture(t, world, async (t, places) => {
    await startStock.haproxy(t, program, places)
  })
  const { member } = world.users
  const names = [...overridingNames]
  const groups: Readonly<Record<string, readonly string[]>> = {
    'its plain spelling': names,
    'the spelling of CGI': names
      .map((name) => name.replaceAll('-', '_').toUpperCase())
      .filter((name) => /_/.test(name)),
    'any name of a family': overridingFamilies.map((family) => `${family}any`),
  }
  for (const [how, forgeries] of Object.entries(groups))
    t.test(`if it only asks, no header that speaks of another request passes in ${how}`, async (t) => {
      const headers = Object.fromEntries(forgeries.map((name) => [name, 'forged']))
      const { answer, arrivals } = await fixture.front.ask({
        path: '/datasets',
        headers: { ...headers, ...oauth(member) },
      })
      t.equal(answer.status, 200)
      t.equal(arrivals.length, 1)
      for (const arrival of arrivals)
        t.same(
          arrival.headers.filter(([, value]) => value.includes('forged')),
          [],
        )
    })
})

testProxy(t, 'haproxy', async (t, { path }) => {
  for (const check of ['/healthz', '/readyz', 'GET /readyz', 'HEAD /healthz'])
    t.test(`its check "option httpchk ${check}" finds the gateway well`, async (t) => {
      const port = await findFreePort()
      const [served, admin] = [world.public, world.admin].map((origin) => new URL(origin).port)
      const lines = [
        ...[
          'defaults',
          'mode http',
          'timeout connect 2s',
          'timeout client 10s',
          'timeout server 10s',
          'timeout check 5s',
        ],
        ...['frontend clients', `bind 127.0.0.1:${port}`, 'default_backend sallyport', 'backend sallyport'],
        ...[
          `option httpchk ${check}`,
          `server sallyport 127.0.0.1:${served} check port ${admin} inter 50ms fall 1 rise 1`,
        ],
      ]
      const folder = writeFolder(t, { 'haproxy.cfg': `${lines.join('\n')}\n` })
      await startProgram(t, { path, args: ['-db', '-f', 'haproxy.cfg'], folder, port })
      // HAProxy takes a server for well until its first check.
      await setTimeout(1_000)
      const isServed = async () => (await call(`http://127.0.0.1:${port}`, { path: '/status' })).status === 200
      await until(isServed, 'the check finds the gateway well', 10_000)
    })
})
