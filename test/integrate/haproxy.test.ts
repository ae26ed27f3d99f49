import t, { type Test } from 'tap'
import { type Places, placeExample, testShown, writeFolder } from '../support/ingress/examples.ts'
import { type Program, testProxy } from '../support/ingress/programs.ts'
import { testScenes } from '../support/ingress/scenes.ts'
import { startStage } from '../support/ingress/stage.ts'
import { startProgram } from '../support/ingress/start-program.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)

async function startHaproxy(t: Test, { path }: Program, places: Places): Promise<void> {
  const folder = writeFolder(t, { 'haproxy.cfg': placeExample('haproxy.cfg', places) })
  await startProgram(t, { path, args: ['-db', '-f', 'haproxy.cfg'], folder, port: places.front })
}

testShown(t, 'haproxy.md', ['haproxy.cfg'])

testProxy(t, 'haproxy', async (t, program) => {
  const stage = await startStage(t, world, (t, places) => startHaproxy(t, program, places))
  // The gateway itself asks the backend.
  testScenes(t, stage, {
    forwards: 'by the gateway',
    adds: [],
    gatewayDown: { decision: 503, public: 503 },
    backendDown: 503,
  })
})
