import t from 'tap'
import { createEngine } from '../../gateway/http/create-engine.ts'
import { callRaw } from '../support/client.ts'
import { listenerOptions } from '../support/listener-options.ts'

const get = 'GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n'

t.test('an error of a handler breaks its connection, is reported, and harms no other client', async (t) => {
  const faults: unknown[] = []
  const engine = createEngine()
  let requests = 0
  const listener = await engine.listen({ ...listenerOptions, onFault: (error) => faults.push(error) }, (exchange) => {
    requests += 1
    if (requests === 1) throw new Error('planted')
    exchange.respond({ status: 200, headers: [] }, 'ok')
  })
  t.teardown(() => Promise.all([listener.close(), engine.close()]))
  const origin = `http://127.0.0.1:${listener.address.port}`
  t.equal(await callRaw(origin, get), '')
  t.match(faults, [{ message: 'planted' }])
  t.match(await callRaw(origin, get), /^HTTP\/1\.1 200 /)
})

for (const [what, before] of [
  ['alone', ''],
  ['behind another request', 'GET /first HTTP/1.1\r\nHost: h\r\n\r\n'],
] as const)
  t.test(`a body that cannot be read, ${what}, puts no head into an answer that has begun`, async (t) => {
    const engine = createEngine()
    const listener = await engine.listen(listenerOptions, (exchange) => {
      if (exchange.target === '/first') exchange.respond({ status: 200, headers: [] }, 'first')
      else exchange.startResponse({ status: 200, headers: ['x-begun', 'yes'] }).write(Buffer.from('half'))
    })
    t.teardown(() => {
      const closed = Promise.all([listener.close(), engine.close()])
      listener.destroy()
      return closed
    })
    const origin = `http://127.0.0.1:${listener.address.port}`
    const post = 'POST /second HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n'
    const text = await callRaw(origin, before + post)
    t.notMatch(text, / 400 /)
    t.notMatch(text, /0\r\n\r\n$/, 'nor an end')
    if (before !== '') t.match(text, /^HTTP\/1\.1 200 [\s\S]*first/)
  })
