import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startTestWorld } from '../support/world.ts'
import { type Places, placeExample, testShown, writeFolder } from './ingress/examples.ts'
import { startIngressFixture } from './ingress/fixture.ts'
import { type Program, testProxy } from './ingress/programs.ts'
import { testScenes } from './ingress/scenes.ts'
import { startProgram } from './ingress/start-program.ts'

const world = await startTestWorld(t)

async function startCaddy(t: Test, { path }: Program, places: Places): Promise<void> {
  const folder = writeFolder(t, { Caddyfile: placeExample('Caddyfile', places) })
  const args = ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile']
  // Another Caddy may have the usual port of the admin endpoint.
  const environment = { CADDY_ADMIN: `unix/${join(folder, 'admin')}` }
  await startProgram(t, { path, args, environment, folder, port: places.front })
}

testShown(t, 'forward-auth.md', ['Caddyfile'])

testProxy(t, 'caddy', async (t, program) => {
  const fixture = await startIngressFixture(t, world, (t, places) => startCaddy(t, program, places))
  testScenes(t, fixture, {
    forwards: 'itself',
    adds: [],
    gatewayDown: { decision: 503, public: 503 },
    backendDown: 503,
  })
})
