import t, { type Test } from 'tap'
import { startTestWorld } from '../support/world.ts'
import { type Places, placeExample, testShown, writeFolder } from './ingress/examples.ts'
import { startIngressFixture } from './ingress/fixture.ts'
import { type Program, testProxy } from './ingress/programs.ts'
import { testScenes } from './ingress/scenes.ts'
import { startProgram } from './ingress/start-program.ts'

const world = await startTestWorld(t)

async function startEnvoy(t: Test, { path }: Program, places: Places): Promise<void> {
  const folder = writeFolder(t, { 'envoy.yaml': placeExample('envoy.yaml', places) })
  const args = ['-c', 'envoy.yaml', '--disable-hot-restart', '--concurrency', '1', '-l', 'warning']
  await startProgram(t, { path, args, folder, port: places.front })
}

testShown(t, 'envoy.md', ['envoy.yaml'])

testProxy(t, 'envoy', async (t, program) => {
  const fixture = await startIngressFixture(t, world, (t, places) => startEnvoy(t, program, places))
  testScenes(t, fixture, {
    forwards: 'itself',
    adds: [],
    gatewayDown: { decision: 503, public: 503 },
    backendDown: 503,
  })
})
