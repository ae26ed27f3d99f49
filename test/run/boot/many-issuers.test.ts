import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startTestGateway } from '../../support/gateway.ts'
import { startTestWorld } from '../../support/world.ts'

// Node warns of a leak where more than ten listen to one signal.
t.test('many issuers and transmitters are told of a stop, and Node warns of no leak', async (t) => {
  const world = await startTestWorld(t)
  const warnings: Error[] = []
  const note = (warning: Error): void => void warnings.push(warning)
  process.on('warning', note)
  t.teardown(() => process.off('warning', note))
  const numbers = Array.from({ length: 12 }, (_, index) => index)
  const nowhere = 'http://127.0.0.1:1'
  await startTestGateway(t, {
    world,
    settings: {
      issuers: numbers.map((number) => ({ issuer: `${nowhere}/${number}`, audience: 'a', required: false })),
      transmitters: numbers.map((number) => ({
        name: `t${number}`,
        issuer: `${nowhere}/${number}`,
        audience: 'a',
        poll: { endpoint: `${nowhere}/poll`, bearer: 'secret-of-the-poll', everyMs: 60_000 },
      })),
    },
  })
  await sleep(200)
  t.same(warnings.map(String), [])
})
