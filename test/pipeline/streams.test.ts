import t, { type Test } from 'tap'
import { call, type JsonValue } from '../support/client.ts'
import {
  chatChunk,
  completedEvent,
  createdEvent,
  deltaEvent,
  parseEvents,
  writeEvent,
} from '../support/event-streams.ts'
import { openRawClient, until } from '../support/gateway.ts'
import {
  chatPath,
  chunkedHead,
  lastChunk,
  modelRoutes,
  responsesPath,
  startStreamPair,
  streamHead,
  toChunk,
} from '../support/streams.ts'

/** With the default time-outs. */
const { gateway, upstream, expect, open } = await startStreamPair(t)

/** The failure that a stream was ended with, after exactly these bytes. */
function readFailure(t: Test, body: Buffer, passed: string): JsonValue {
  t.equal(body.subarray(0, Buffer.byteLength(passed)).toString(), passed)
  const [ending, ...more] = parseEvents(body.subarray(Buffer.byteLength(passed)))
  t.same(more, [])
  return JSON.parse(ending?.data ?? '{}')
}

t.test('a whole stream passes byte for byte, with its head', async (t) => {
  const stream = `: hello\n\n${createdEvent}id: 7\nretry: 10\n${deltaEvent(1)}${completedEvent}`
  const answer = await open(responsesPath, (socket) => {
    const head = chunkedHead.replace('\r\n\r\n', '\r\nx-model: m\r\nCache-Control: no-store\r\n\r\n')
    socket.write(Buffer.concat([Buffer.from(head), toChunk(stream), Buffer.from(lastChunk)]))
  })
  t.match(answer, { status: 200, headers: { 'content-type': 'text/event-stream', 'x-model': 'm' } })
  t.equal((await answer.whole()).toString(), stream)
})

t.test('an event passes as soon as it is whole, and not before', async (t) => {
  const halves = [deltaEvent(1).slice(0, 30), deltaEvent(1).slice(30)]
  let say = (_text: string): void => {}
  const answer = await open(responsesPath, (socket) => {
    say = (text) => void socket.write(toChunk(text))
    socket.write(chunkedHead)
    say(createdEvent)
  })
  await until(() => answer.text() === createdEvent, 'the first event')
  say(halves[0] ?? '')
  // By the time another stream has passed whole, the half event would have arrived if the gateway had sent it.
  await (await open(responsesPath, (socket) => socket.end(`${streamHead}\r\n${completedEvent}`))).whole()
  t.equal(answer.text(), createdEvent)
  say(halves[1] ?? '')
  await until(() => answer.text() === createdEvent + deltaEvent(1), 'the second event')
  answer.leave()
})

const deaths: Readonly<Record<string, (say: (bytes: string | Buffer) => void) => string>> = {
  'in chunks': (say) => {
    say(chunkedHead)
    say(toChunk(createdEvent + deltaEvent(4).slice(0, 20)))
    return createdEvent
  },
  'with a length': (say) => {
    say(`${streamHead}content-length: 100000\r\n\r\n${createdEvent}`)
    return createdEvent
  },
  'without framing': (say) => {
    say(`${streamHead}\r\n${createdEvent}${deltaEvent(4)}`)
    return createdEvent + deltaEvent(4)
  },
}
for (const [framing, begin] of Object.entries(deaths))
  for (const die of ['end', 'resetAndDestroy'] as const)
    t.test(`a stream ${framing} whose upstream dies by ${die} ends in one response.failed`, async (t) => {
      let kill = (): void => {}
      let passed = ''
      const answer = await open(responsesPath, (socket) => {
        passed = begin((bytes) => socket.write(bytes))
        kill = () => void socket[die]()
      })
      await until(() => answer.text() === passed, 'what passes')
      kill()
      const failure = readFailure(t, await answer.whole(), passed)
      t.match(failure, {
        type: 'response.failed',
        sequence_number: passed.includes('"sequence_number":4') ? 5 : 1,
        response: { id: 'resp_1', status: 'failed', metadata: { x_service_error_code: 'worker_disconnected' } },
      })
    })

t.test('the failure comes within 200 ms of the upstream’s death', async (t) => {
  const delays: number[] = []
  // A failure that waits for something is late each time; on a busy machine any other may be late too, but now and then.
  while (delays.length < 30 && !((delays.at(-1) ?? Number.POSITIVE_INFINITY) < 200)) {
    let diedAtMs = 0
    const answer = await open(responsesPath, (socket) => {
      socket.write(`${streamHead}\r\n${createdEvent}`)
      setImmediate(() => {
        diedAtMs = performance.now()
        socket.end()
      })
    })
    await answer.whole()
    delays.push(performance.now() - diedAtMs)
  }
  t.ok(Math.min(...delays) < 200, delays.join())
})

t.test('a chat that ends without [DONE] ends in a data line with an error', async (t) => {
  const answer = await open(chatPath, (socket) => socket.end(`${streamHead}\r\n${chatChunk}`))
  const failure = readFailure(t, await answer.whole(), chatChunk)
  t.match(failure, {
    error: { message: String, type: 'server_error', code: 'server_error' },
    type: 'response.failed',
    sequence_number: 0,
    response: { id: 'chatcmpl-1', metadata: { x_service_error_code: 'worker_disconnected' } },
  })
  t.notMatch(answer.text(), /^event:|\[DONE\]/m)
})

t.test('a chat that ends with [DONE] passes byte for byte', async (t) => {
  const stream = `${chatChunk}data: [DONE]\n\n`
  const answer = await open(chatPath, (socket) => socket.end(`${streamHead}\r\n${stream}`))
  t.equal((await answer.whole()).toString(), stream)
})

t.test('the key `stream` of a route says which API its streams follow', async (t) => {
  const [route] = modelRoutes
  const own = await startStreamPair(t, {
    routes: [
      { ...route, match: { path: '/talk' }, stream: 'chat' },
      { ...route, id: 'rest', match: { path: '/*' } },
    ],
  })
  for (const path of ['/talk', '/v1/chat/completions'])
    t.match(
      (await (await own.open(path, (socket) => socket.end(`${streamHead}\r\ndata: [DONE]\n\n`))).whole()).length,
      14,
    )
  const answer = await own.open('/v1/completions', (socket) => socket.end(`${streamHead}\r\ndata: [DONE]\n\n`))
  t.match((await answer.whole()).toString(), /^data: \[DONE\]\n\nevent: response\.failed\n/)
})

const refusals: Readonly<Record<string, string>> = {
  'before anything': `${streamHead}\r\n`,
  'after comments alone': `${streamHead}\r\n: ping\n\n`,
  'in its first event': `${streamHead}\r\n${createdEvent.slice(0, -1)}`,
  'in chunks': `${chunkedHead}${lastChunk}`,
}
for (const [when, bytes] of Object.entries(refusals))
  t.test(`a stream that ends ${when} is 503`, async (t) => {
    for (const path of [responsesPath, chatPath]) {
      const answer = await open(path, (socket) => socket.end(bytes))
      t.match(answer, { status: 503, headers: { 'content-type': /^application\/json/ } })
      const { error } = JSON.parse((await answer.whole()).toString())
      t.match(error, { message: String, type: 'server_error', code: 'upstream_unavailable' })
    }
  })

t.test('the gateway waits for an upstream that stays open after its terminal event', async (t) => {
  let end = (): void => {}
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n${createdEvent}${completedEvent}`)
    end = () => void socket.end(': and good bye')
  })
  await until(() => answer.text() === createdEvent + completedEvent, 'the terminal event')
  t.equal(answer.hasEnded(), false)
  end()
  t.equal((await answer.whole()).toString(), `${createdEvent}${completedEvent}: and good bye`)
})

t.test('an event over 16 MiB ends the stream, and the upstream with it', async (t) => {
  const large = Buffer.from(`data: ${'x'.repeat(16 * 1024 * 1024)}\n\n`)
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n${createdEvent}`)
    socket.write(large)
  })
  const failure = readFailure(t, await answer.whole(), createdEvent)
  t.match(failure, { response: { metadata: { x_service_error_code: 'event_too_large' } } })
  await until(() => upstream.sockets().at(-1)?.destroyed || upstream.sockets().at(-1)?.readableEnded, 'the close')
  const first = await open(responsesPath, (socket) =>
    socket.write(Buffer.concat([Buffer.from(`${streamHead}\r\n`), large])),
  )
  t.equal(first.status, 503)
  t.match(JSON.parse((await first.whole()).toString()), { error: { code: 'event_too_large' } })
})

t.test('an event just under 16 MiB passes', async (t) => {
  const large = `data: ${'x'.repeat(16 * 1024 * 1024 - 8)}\n\n`
  const answer = await open(responsesPath, (socket) => socket.end(`${streamHead}\r\n${large}${completedEvent}`))
  t.ok((await answer.whole()).equals(Buffer.from(large + completedEvent)))
})

t.test('250 clients that leave close 250 upstream connections within 1 s', async (t) => {
  const before = upstream.sockets().length
  const answers = await Promise.all(
    Array.from({ length: 250 }, () =>
      open(responsesPath, (socket) => socket.write(`${streamHead}\r\n${createdEvent}`)),
    ),
  )
  const isOpen = (index: number): boolean => upstream.sockets()[index]?.readableEnded === false
  const opened = upstream
    .sockets()
    .map((_, index) => index)
    .slice(before)
  t.equal(opened.filter(isOpen).length, 250)
  for (const answer of answers) answer.leave()
  await until(() => !opened.some(isOpen), 'the release of every upstream connection', 1_000)
})

t.test('a slow reader slows its upstream down, and gets every byte', async (t) => {
  const events = deltaEvent(1).repeat(1_000)
  const count = 200
  let sent = 0
  let isHeldUp = false
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n${createdEvent}`)
    const go = (): void => {
      isHeldUp = false
      while (sent < count) {
        sent += 1
        if (!socket.write(events)) {
          isHeldUp = true
          socket.once('drain', go)
          return
        }
      }
      socket.end(completedEvent)
    }
    go()
  })
  answer.pause()
  let last = -1
  await until(async () => {
    const isStill = isHeldUp && sent === last
    last = sent
    await new Promise((resolve) => setTimeout(resolve, 100))
    return isStill
  }, 'back-pressure')
  t.ok(sent < count / 2, `${sent} of ${count} parts were taken from the upstream`)
  answer.resume()
  t.equal(
    (await answer.whole()).length,
    Buffer.byteLength(createdEvent + completedEvent) + Buffer.byteLength(events) * count,
  )
})

/** Sends a request by hand, which the upstream answers with one event before it dies. */
async function sendRaw(t: Test, version: string, rest = '') {
  const client = await openRawClient(t, gateway.public)
  const key = expect((socket) => socket.end(`${streamHead}\r\n${createdEvent}`))
  client.send(
    `POST ${responsesPath} HTTP/${version}\r\nHost: h\r\nX-Request-Id: ${key}\r\nContent-Length: 0\r\n\r\n${rest}`,
  )
  return client
}

t.test('a failure ends its answer, and the next request on the connection has its turn', async (t) => {
  const client = await sendRaw(t, '1.1', 'GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n')
  t.match(await client.until(/route_not_found/), /\nevent: response\.failed\n.*\n\n\r\n0\r\n\r\nHTTP\/1\.1 404 /)
})

t.test('a client of HTTP/1.0 gets the failure too', async (t) => {
  const client = await sendRaw(t, '1.0')
  t.match(await client.closed(), /\r\n\r\nevent: response\.created\n.*\n\nevent: response\.failed\n.*\n\n$/)
})

t.test('open streams are counted, and failures by their codes', async (t) => {
  const read = async (): Promise<string> => (await call(gateway.admin, { path: '/metrics' })).text
  const countFailures = async () =>
    Number(/sallyport_streams_failed_total\{code="worker_disconnected"\} (\d+)/.exec(await read())?.[1] ?? 0)
  await until(async () => /^sallyport_streams_open 0$/m.test(await read()), 'the end of every stream')
  const before = await countFailures()
  let end = (): void => {}
  const answer = await open(responsesPath, (socket) => {
    socket.write(`${streamHead}\r\n${writeEvent('response.created', 0)}`)
    end = () => void socket.end()
  })
  t.match(await read(), /^sallyport_streams_open 1$/m)
  end()
  await answer.whole()
  t.equal(await countFailures(), before + 1)

  const left = await open(responsesPath, (socket) => socket.write(`${streamHead}\r\n${createdEvent}`))
  left.leave()
  await until(async () => /^sallyport_streams_open 0$/m.test(await read()), 'the end of the stream that was left')
  t.equal(await countFailures(), before + 1, 'a client that leaves is not a failure')
})
