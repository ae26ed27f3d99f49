import t, { type Test } from 'tap'
import { startTestWorld } from '../support/world.ts'
import { type Places, placeExample, testShown, writeFolder } from './ingress/examples.ts'
import { startIngressFixture } from './ingress/fixture.ts'
import { type Program, testProxy } from './ingress/programs.ts'
import { testScenes } from './ingress/scenes.ts'
import { startProgram } from './ingress/start-program.ts'

const world = await startTestWorld(t)
const files = ['traefik.yaml', 'sallyport.yaml']

async function startTraefik(t: Test, { path }: Program, places: Places): Promise<void> {
  const folder = writeFolder(t, Object.fromEntries(files.map((name) => [name, placeExample(name, places)])))
  await startProgram(t, { path, args: ['--configfile=traefik.yaml'], folder, port: places.front })
}

testShown(t, 'forward-auth.md', files)

testProxy(t, 'traefik', async (t, program) => {
  const fixture = await startIngressFixture(t, world, (t, places) => startTraefik(t, program, places))
  // Traefik sets two more forwarding headers of its own, and asks the backend for compressed answers.
  const adds = ['x-forwarded-port', 'x-forwarded-server', 'accept-encoding']
  testScenes(t, fixture, { forwards: 'itself', adds, gatewayDown: { decision: 500, public: 502 }, backendDown: 502 })
})
