import t, { type Test } from 'tap'
import { startTestWorld } from '../support/world.ts'
import { type Places, placeExample, testShown, writeFolder } from './ingress/examples.ts'
import { startIngressFixture } from './ingress/fixture.ts'
import { nginxMain } from './ingress/nginx-main.ts'
import { type Program, testProxy } from './ingress/programs.ts'
import { testScenes } from './ingress/scenes.ts'
import { startProgram } from './ingress/start-program.ts'

const world = await startTestWorld(t)

async function startNginx(t: Test, { path }: Program, places: Places): Promise<void> {
  const example = placeExample('nginx.conf', places)
  const folder = writeFolder(t, { 'nginx.conf': nginxMain, 'sallyport.conf': example })
  await startProgram(t, { path, args: ['-p', folder, '-c', 'nginx.conf'], folder, port: places.front })
}

testShown(t, 'nginx.md', ['nginx.conf'])

testProxy(t, 'nginx', async (t, program) => {
  const fixture = await startIngressFixture(t, world, (t, places) => startNginx(t, program, places))
  testScenes(t, fixture, {
    forwards: 'itself',
    adds: [],
    gatewayDown: { decision: 503, public: 503 },
    backendDown: 503,
  })
})
