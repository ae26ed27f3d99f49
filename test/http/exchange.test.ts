import t, { type Test } from 'tap'
import { createEngine } from '../../gateway/http/create-engine.ts'
import type { ResponseWriter } from '../../gateway/http/exchange.ts'
import { openRawClient } from '../support/gateway.ts'
import { listenerOptions } from '../support/listener-options.ts'

const engine = createEngine()
t.teardown(() => engine.close())

const request = 'GET / HTTP/1.1\r\nHost: h\r\n\r\n'

/** A client of a listener that answers like this, as soon as it has a request. */
async function openClient(t: Test, answer: (writer: ResponseWriter) => void) {
  const listener = await engine.listen(listenerOptions, (exchange) =>
    answer(exchange.startResponse({ status: 200, headers: [] })),
  )
  t.teardown(listener.close)
  return openRawClient(t, `http://127.0.0.1:${listener.address.port}`)
}

// From Node 22 on, `end` overtakes the chunks of a corked answer, which then lead the next one on the connection.
t.test('an answer of many writes in one tick arrives in their order, before the next answer', async (t) => {
  const client = await openClient(t, (writer) => {
    for (const text of ['one', 'two', 'three']) writer.write(Buffer.from(text))
    writer.end()
  })
  client.send(request + request)
  const answer = /HTTP\/1\.1 200 (?:[^\r]*\r\n)+\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n/
  t.ok(await client.until(new RegExp(`^${answer.source}${answer.source}$`)))
})

t.test('a head whose body keeps its client waiting goes out alone', async (t) => {
  let end = (): void => {}
  const client = await openClient(t, (writer) => {
    end = () => writer.end()
  })
  client.send(request)
  t.match(await client.until(/\r\n\r\n/), /^HTTP\/1\.1 200 [\s\S]*\r\n\r\n$/)
  end()
  await client.until(/\r\n\r\n0\r\n\r\n$/)
})

t.test('two transformations of the head of an answer both apply, in their order', async (t) => {
  const listener = await engine.listen(listenerOptions, (exchange) => {
    exchange.transformHead((headers) => [...headers, 'x-first', 'one'])
    exchange.transformHead((headers) => [...headers, 'x-second', String(headers.includes('x-first'))])
    exchange.respond({ status: 200, headers: ['x-own', 'yes'] }, '')
  })
  t.teardown(listener.close)
  const client = await openRawClient(t, `http://127.0.0.1:${listener.address.port}`)
  client.send(request)
  const head = await client.until(/\r\n\r\n/)
  t.match(head, /x-own: yes\r\n/i)
  t.match(head, /x-first: one\r\nx-second: true\r\n/i)
})
