import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createEngine } from '../../../gateway/http/create-engine.ts'
import type { ListenerOptions } from '../../../gateway/http/engine.ts'
import type { Exchange, ResponseWriter } from '../../../gateway/http/exchange.ts'
import { openRawClient, until } from '../../support/gateway.ts'
import { listenerOptions } from '../../support/listener-options.ts'

const engine = createEngine()
t.teardown(() => engine.close())

const get = 'GET / HTTP/1.1\r\nHost: h\r\n\r\n'

async function listen(t: Test, handle: (exchange: Exchange) => void, options: Partial<ListenerOptions> = {}) {
  const listener = await engine.listen({ ...listenerOptions, ...options }, handle)
  t.teardown(async () => {
    const closed = listener.close()
    listener.destroy()
    await closed
  })
  return { listener, origin: `http://127.0.0.1:${listener.address.port}` }
}

const answerOk = (exchange: Exchange): void => exchange.respond({ status: 200, headers: [] }, 'ok')

t.test('a request behind another one begins when that is answered, and not before', async (t) => {
  const exchanges: Exchange[] = []
  const { origin } = await listen(t, (exchange) => void exchanges.push(exchange))
  const client = await openRawClient(t, origin)
  client.send(get + get)
  await until(() => exchanges.length > 0, 'the first request')
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(exchanges.length, 1)
  exchanges.map(answerOk)
  await until(() => exchanges.length === 2, 'the second request')
  exchanges.slice(1).map(answerOk)
  t.ok(await client.until(/ok[\s\S]+ok$/))
})

t.test('a client that pipelines without end is read no further than its answers', async (t) => {
  const exchanges: Exchange[] = []
  const { origin } = await listen(t, (exchange) => void exchanges.push(exchange))
  const client = await openRawClient(t, origin)
  client.send(get.repeat(500_000))
  await until(() => exchanges.length > 0, 'the first request')
  await new Promise((resolve) => setTimeout(resolve, 100))
  t.ok(client.socket.writableLength > 0, 'the rest waits at the client')
  t.equal(exchanges.length, 1)
  const { bytes } = engine.readHeldMemory()
  t.ok(bytes > 0 && bytes <= 16 * 1024 + 128, `${bytes} bytes are held, of one read of a socket and what keeps it`)
})

t.test('requests of several clients stay apart, however long their bytes are held', async (t) => {
  const exchanges: Exchange[] = []
  const { origin } = await listen(t, (exchange) => void exchanges.push(exchange))
  const letters = [...'abcdefghijkl']
  const clients = await Promise.all(letters.map(() => openRawClient(t, origin)))
  const piece = (letter: string): string => letter.repeat(1_000)
  const say = (compose: (letter: string) => string): void => {
    for (const [index, client] of clients.entries()) client.send(compose(letters[index] ?? ''))
  }
  say((letter) => `POST /${letter} HTTP/1.1\r\nHost: h\r\nContent-Length: 3000\r\n\r\n${piece(letter)}`)
  await until(() => exchanges.length === clients.length, 'the requests')
  for (let count = 0; count < 2; count += 1) {
    await new Promise((resolve) => setTimeout(resolve, 20))
    say(piece)
  }
  // Behind it a request that waits for its turn, in pieces as well.
  say((letter) => `GET /${letter}`)
  await new Promise((resolve) => setTimeout(resolve, 20))
  say((letter) => `${letter} HTTP/1.1\r\nHost: ${letter}\r\n\r\n`)
  await new Promise((resolve) => setTimeout(resolve, 20))
  for (const exchange of exchanges.slice()) {
    const letter = exchange.target.slice(1)
    t.equal((await exchange.body.read(10_000)).toString(), piece(letter).repeat(3))
    answerOk(exchange)
  }
  await until(() => exchanges.length === 2 * clients.length, 'the requests behind them')
  const later = exchanges.slice(clients.length).map(({ target, headers }) => `${target} ${headers.join()}`)
  t.same(
    later.sort(),
    letters.map((letter) => `/${letter}${letter} Host,${letter}`),
  )
})

t.test('a small answer goes out in one piece, however it is written', async (t) => {
  const { origin } = await listen(t, (exchange) => {
    const writer = exchange.startResponse({ status: 200, headers: [] })
    for (const text of ['one', 'two']) writer.write(Buffer.from(text))
    writer.end()
  })
  const client = await openRawClient(t, origin)
  const pieces: string[] = []
  client.socket.on('data', (chunk) => pieces.push(chunk.toString('latin1')))
  client.send(get)
  await client.until(/0\r\n\r\n$/)
  t.equal(pieces.length, 1)
  t.match(pieces[0], /\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n$/)
})

t.test('an answer that only its connection ends, and that breaks off, ends by a reset', async (t) => {
  const { origin } = await listen(t, (exchange) => {
    exchange.startResponse({ status: 200, headers: [] }).write(Buffer.from('half'))
    setTimeout(() => exchange.destroy(), 20)
  })
  const client = await openRawClient(t, origin)
  let fault: NodeJS.ErrnoException | undefined
  client.socket.on('error', (error) => {
    fault = error
  })
  client.send('GET / HTTP/1.0\r\nHost: h\r\n\r\n')
  t.match(await client.closed(), /\r\n\r\nhalf$/)
  t.equal(fault?.code, 'ECONNRESET')
})

t.test('an answer that breaks off reaches its client in part, and never as a whole one', async (t) => {
  const { origin } = await listen(t, (exchange) => {
    const writer = exchange.startResponse({ status: 200, headers: ['content-length', '5'] })
    writer.write(Buffer.from('whole'))
    exchange.destroy()
  })
  const client = await openRawClient(t, origin)
  client.send(get)
  t.match(await client.closed(), /^HTTP\/1\.1 200 OK\r\n[\s\S]+\r\n\r\nwhol$/)
})

t.test('an answer that was given before its client ends its side arrives', async (t) => {
  const exchanges: Exchange[] = []
  const { origin } = await listen(t, (exchange) => void exchanges.push(exchange))
  const client = await openRawClient(t, origin)
  client.send(get)
  await until(() => exchanges.length === 1, 'the request')
  // The client's end is here before the turn of the answer is over.
  await sleep(1)
  client.socket.end()
  const writer = exchanges[0]?.startResponse({ status: 200, headers: ['content-length', '2'] })
  writer?.write(Buffer.from('ok'))
  writer?.end()
  t.match(await client.closed(), /\r\n\r\nok$/)
})

t.test('a head that would read as two is refused, and so is a second head', async (t) => {
  const faults: string[] = []
  const { origin } = await listen(t, (exchange) => {
    for (const head of [
      { status: 200, headers: ['x', 'a\r\nb: c'] },
      { status: 200, headers: ['x\r\nb: c', 'a'] },
      { status: 200, reason: 'a\r\nb: c', headers: [] },
      { status: 20, headers: [] },
    ])
      try {
        exchange.startResponse(head)
      } catch {
        faults.push('head')
      }
    answerOk(exchange)
    try {
      answerOk(exchange)
    } catch {
      faults.push('twice')
    }
  })
  const client = await openRawClient(t, origin)
  client.send(get)
  t.notMatch(await client.until(/ok$/), /b: c/)
  t.same(faults, ['head', 'head', 'head', 'head', 'twice'])
})

t.test('an end tells whether all of the answer has left', async (t) => {
  const ends: boolean[] = []
  const writers: ResponseWriter[] = []
  const { origin } = await listen(t, (exchange) => {
    exchange.onEnd((isComplete) => ends.push(isComplete))
    if (exchange.target === '/whole') answerOk(exchange)
    else writers.push(exchange.startResponse({ status: 200, headers: [] }))
  })
  const client = await openRawClient(t, origin)
  client.send('GET /whole HTTP/1.1\r\nHost: h\r\n\r\n')
  await until(() => ends.length === 1, 'the end of the whole')
  client.send('GET /cut HTTP/1.1\r\nHost: h\r\n\r\n')
  await until(() => writers.length === 1, 'the head of the cut')
  client.socket.destroy()
  await until(() => ends.length === 2, 'the end of the cut')
  t.same(ends, [true, false])
  t.equal(writers[0]?.write(Buffer.from('late')), false)
})

t.test('a listener that closes lets an answer end, says that it is the last, and closes what is idle', async (t) => {
  const exchanges: Exchange[] = []
  const { listener, origin } = await listen(t, (exchange) => void exchanges.push(exchange))
  const [idle, busy] = [await openRawClient(t, origin), await openRawClient(t, origin)]
  busy.send(get + get)
  await until(() => exchanges.length === 1 && listener.countConnections() === 2, 'the request')
  const closed = listener.close()
  t.equal(await idle.closed(), '')
  exchanges.map(answerOk)
  t.match(await busy.closed(), /^HTTP\/1\.1 200 [\s\S]*connection: close[\s\S]*ok$/i)
  await closed
  t.equal(exchanges.length, 1)
})

t.test('a client that sends no whole head in time is closed, with 408 if it had begun one', async (t) => {
  const { listener, origin } = await listen(t, answerOk, { headersTimeoutMs: 100 })
  const silent = await openRawClient(t, origin)
  const partial = await openRawClient(t, origin)
  partial.send('GET / HTTP/1.1\r\nHo')
  t.match(await partial.closed(), /^HTTP\/1\.1 408 /)
  await silent.closed()
  await until(() => listener.countConnections() === 0, 'that both are gone')
})

t.test('a client that may not send a body learns that first, whatever the body is', async (t) => {
  const malformed: string[] = []
  const { origin } = await listen(
    t,
    (exchange) =>
      setImmediate(() => {
        if (exchange.target === '/refused') exchange.respond({ status: 401, headers: [] }, 'no')
        else exchange.body.read(100).catch(({ status }) => exchange.respond({ status, headers: [] }, 'no'))
      }),
    { onMalformed: ({ code, isBody }) => malformed.push(`${code} ${isBody}`) },
  )
  for (const [target, status] of [
    ['/refused', 401],
    ['/read', 400],
  ] as const) {
    const client = await openRawClient(t, origin)
    client.send(
      `POST ${target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n${get}`,
    )
    t.match(await client.closed(), new RegExp(`^HTTP/1\\.1 ${status} (?![\\s\\S]*HTTP/1)`), target)
  }
  t.same(malformed, ['headers_malformed true'])
})
