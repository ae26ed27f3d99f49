import { once } from 'node:events'
import { createServer } from 'node:net'
import t from 'tap'
import { findFreePort, isPortFree } from '../../demo/free-port.ts'

t.test('a free port is one that no system gives to an outgoing connection', async (t) => {
  for (let again = 0; again < 20; again += 1) {
    const port = await findFreePort()
    t.ok(port >= 20_000 && port < 32_000, String(port))
    t.ok(await isPortFree(port))
  }
})

t.test('a port with a listener is not free', async (t) => {
  const port = await findFreePort()
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  t.notOk(await isPortFree(port))
})
