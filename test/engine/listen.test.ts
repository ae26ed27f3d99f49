import t from 'tap'
import { callRaw } from '../support/client.ts'
import { createTestEngine } from '../support/engine.ts'
import { listenerOptions } from '../support/listener-options.ts'

const get = 'GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'

t.test('what a handler throws breaks its connection, is told, and harms nobody else', async (t) => {
  const faults: unknown[] = []
  const engine = createTestEngine()
  let requests = 0
  const listener = await engine.listen({ ...listenerOptions, onFault: (error) => faults.push(error) }, (exchange) => {
    requests += 1
    if (requests === 1) throw new Error('planted')
    exchange.answer({ status: 200, headers: [] }, 'ok')
  })
  t.teardown(() => Promise.all([listener.close(), engine.close()]))
  const origin = `http://127.0.0.1:${listener.address.port}`
  t.equal(await callRaw(origin, get), '')
  t.match(faults, [{ message: 'planted' }])
  t.match(await callRaw(origin, get), /^HTTP\/1\.1 200 /)
})
