import { createServer } from 'node:net'
import t from 'tap'
import { findFreePort, isPortFree } from '../../demo/free-port.ts'
import { type Ports, startOnFreePorts } from '../../demo/ports.ts'

const preferNone: Ports = { public: 0, decision: 0, admin: 0 }

t.test('a port that another process took after it was found free is chosen again', async (t) => {
  const preferred = { ...preferNone, public: await findFreePort() }
  const chosen: number[] = []
  const started = await startOnFreePorts(preferred, async (ports) => {
    chosen.push(ports.public)
    if (chosen.length > 1) return 'started'
    const other = createServer().listen(ports.public, '127.0.0.1')
    t.teardown(() => other.close())
    await new Promise((resolve) => other.once('listening', resolve))
    throw new Error('the port is taken')
  })
  t.equal(started, 'started')
  t.equal(chosen[0], preferred.public)
  t.ok((chosen[1] as number) > preferred.public)
  t.notOk(await isPortFree(preferred.public))
})

t.test('a start that fails for another reason is not repeated', async (t) => {
  let starts = 0
  const start = async (): Promise<never> => {
    starts += 1
    throw new Error('no database')
  }
  await t.rejects(startOnFreePorts(preferNone, start), new Error('no database'))
  t.equal(starts, 1)
})
