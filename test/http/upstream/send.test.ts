import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Deadline } from '../../../gateway/base/lib/deadline.ts'
import { createEngine } from '../../../gateway/http/create-engine.ts'
import type { UpstreamRequest, UpstreamResult } from '../../../gateway/http/engine.ts'
import { freeAccount } from '../../../gateway/http/memory-budget.ts'
import { PreparedHeaders } from '../../../gateway/http/prepared-headers.ts'
import { Http1RequestBody } from '../../../gateway/http/server/request-body.ts'
import { countHeads, passTurn, startRawUpstream, until } from '../../support/gateway.ts'

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

const engine = createEngine()
t.teardown(() => engine.close())

const get: Omit<UpstreamRequest, 'origin'> = {
  method: 'GET',
  path: '/',
  headers: [],
  body: undefined,
  asksForWebSocket: false,
  bodyLimitBytes: 0,
  timeouts: { connectMs: 1_000, firstByteMs: 1_000, idleMs: 1_000 },
  isFreshConnection: false,
  onCancellable: () => undefined,
}

/** Reads an answer to its end; gives its status and body, or the fault that it ended with. */
async function ask(origin: string, request: Partial<UpstreamRequest> = {}, of = engine): Promise<string> {
  let answer: UpstreamResult
  try {
    answer = await of.send({ ...get, ...request, origin })
  } catch (error) {
    return (error as { fault: string }).fault
  }
  if ('connection' in answer) return 'joined'
  const { status, pipe } = answer
  return new Promise((resolve) => {
    let text = `${status} `
    pipe({
      data: (chunk) => {
        text += Buffer.from(chunk).toString('latin1')
        return true
      },
      end: () => resolve(text),
      fail: ({ fault }) => resolve(text + fault),
    })
  })
}

/** A body of eight bytes, as its client sends them. */
function dripBody(): Http1RequestBody {
  const deadline = new Deadline()
  const source = {
    setDeadline: deadline.set.bind(deadline),
    stopDeadline: () => deadline.stop(),
    account: freeAccount,
    isHeld: false,
    pauseReading: () => {},
    resumeReading: () => {},
    writeContinue: () => {},
  }
  return new Http1RequestBody(source, 8, false, { bodyIdleTimeoutMs: 20_000, minBodyBytesPerSecond: 0 })
}

const answerHeads = (answer: string | ((count: number) => string)) => (socket: Socket, soFar: string) => {
  if (soFar.endsWith('\r\n\r\n')) socket.write(typeof answer === 'string' ? answer : answer(countHeads(soFar)))
}

t.test('a connection serves one request after the other', async (t) => {
  const upstream = await startRawUpstream(t, answerHeads(ok))
  for (let count = 0; count < 3; count++) {
    t.equal(await ask(upstream.url), '200 ok')
    await passTurn()
  }
  t.equal(upstream.sockets().length, 1)
  t.match(upstream.received()[0], /^GET \/ HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\nconnection: keep-alive\r\n\r\nGET /)
})

const liars: Readonly<Record<string, string>> = {
  'more bytes behind its answer': `${ok}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`,
  'Connection: close': ok.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n'),
  'HTTP/1.0': ok.replace('1.1', '1.0'),
  'no time to keep it': ok.replace('\r\n\r\n', '\r\nkeep-alive: timeout=1\r\n\r\n'),
}
for (const [what, answer] of Object.entries(liars))
  t.test(`a connection with ${what} serves no other request`, async (t) => {
    const upstream = await startRawUpstream(t, answerHeads(answer))
    t.equal(await ask(upstream.url), '200 ok')
    t.equal(await ask(upstream.url), '200 ok')
    t.equal(upstream.sockets().length, 2)
  })

t.test('unsolicited bytes of an upstream answer no request', async (t) => {
  const upstream = await startRawUpstream(t, answerHeads(ok))
  t.equal(await ask(upstream.url), '200 ok')
  upstream.sockets()[0]?.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil')
  // Sooner than an idle one is closed.
  await until(() => upstream.sockets()[0]?.readableEnded || upstream.sockets()[0]?.destroyed, 'the close', 2_000)
  t.equal(await ask(upstream.url), '200 ok')
  t.equal(upstream.sockets().length, 2)
})

t.test('bytes of an upstream from before a request has left do not answer it', async (t) => {
  const upstream = await startRawUpstream(t, answerHeads(ok))
  t.equal(await ask(upstream.url), '200 ok')
  // Behind a timer the next thing that happens is a look for bytes, and these are here.
  await passTurn()
  upstream.sockets()[0]?.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil')
  t.equal(await ask(upstream.url), 'stale')
  t.equal(upstream.received().join('').match(/GET/g)?.length, 1, 'the upstream did not hear of it')
  t.equal(await ask(upstream.url), '200 ok')
})

// It may come late, when nothing tells it from the next answer.
t.test('the body that an upstream sends for HEAD answers no request', async (t) => {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    socket.write(soFar.startsWith('HEAD') ? ok.slice(0, -2) : ok)
  })
  t.equal(await ask(upstream.url, { method: 'HEAD' }), '200 ')
  t.equal(await ask(upstream.url), '200 ok')
  t.equal(upstream.sockets().length, 2)
})

t.test('a connection that answers before it has all of a request serves no other', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => void socket.write(ok))
  const body = dripBody()
  body.push(Buffer.from('half'))
  t.equal(await ask(upstream.url, { method: 'POST', body, bodyLimitBytes: 100 }), '200 ok')
  t.equal(await ask(upstream.url), '200 ok')
  t.match(upstream.received(), [/content-length: 8\r\n\r\nhalf$/, /^GET /])
})

t.test('a body may take longer than its kept connection would have waited for work', async (t) => {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (/(?:\r\n\r\n|halfhalf)$/.test(soFar)) socket.write(ok.replace('\r\n\r\n', '\r\nkeep-alive: timeout=3\r\n\r\n'))
  })
  t.equal(await ask(upstream.url), '200 ok')
  await passTurn()
  const body = dripBody()
  body.push(Buffer.from('half'))
  const answer = ask(upstream.url, { method: 'POST', body, bodyLimitBytes: 100 })
  await sleep(1_500)
  body.push(Buffer.from('half'))
  body.finish()
  t.equal(await answer, '200 ok')
  t.equal(upstream.sockets().length, 1)
})

const broken: Readonly<Record<string, string>> = {
  'two lengths': 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok',
  'an unknown coding': 'HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok',
  'no status line': 'nonsense\r\n\r\n',
  'a status beyond all': ok.replace('200', '600'),
  'another version': ok.replace('HTTP/1.1', 'HTTP/2.0'),
  'an unasked 101': 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
  'a head without end': `HTTP/1.1 200 OK\r\n${`x: ${'y'.repeat(1_000)}\r\n`.repeat(70)}\r\n`,
}
for (const [what, answer] of Object.entries(broken))
  t.test(`an answer with ${what} is refused, and its connection closes`, async (t) => {
    const upstream = await startRawUpstream(t, answerHeads(answer))
    t.equal(await ask(upstream.url), 'protocol-error')
    await until(() => upstream.sockets()[0]?.readableEnded || upstream.sockets()[0]?.destroyed, 'the close')
  })

t.test('early heads that are well-formed are passed over', async (t) => {
  const unasked = 'HTTP/1.1 100 Continue\r\n\r\n'
  const early = 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'
  const upstream = await startRawUpstream(t, answerHeads(early + unasked + early + ok))
  t.equal(await ask(upstream.url), '200 ok')
})

t.test('a kept connection that closes under its next request is told from one that answered', async (t) => {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (countHeads(soFar) === 1) socket.write(ok)
    else socket.resetAndDestroy()
  })
  t.equal(await ask(upstream.url), '200 ok')
  await passTurn()
  t.equal(await ask(upstream.url), 'stale')
  t.equal(await ask(upstream.url, { isFreshConnection: true }), '200 ok')
  const half = await startRawUpstream(t, (socket) => void socket.end('HTTP/1.1 2'))
  t.equal(await ask(half.url), 'protocol-error')
  t.equal(await ask('http://127.0.0.1:1'), 'unreachable')
})

t.test('an upstream that says nothing is given up, one that says half of an answer too', async (t) => {
  const timeouts = { connectMs: 1_000, firstByteMs: 100, idleMs: 100 }
  const silent = await startRawUpstream(t, () => {})
  t.equal(await ask(silent.url, { timeouts }), 'timeout')
  const half = await startRawUpstream(t, answerHeads('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf'))
  t.equal(await ask(half.url, { timeouts }), '200 halftimeout')
})

t.test('nothing that would be two lines goes out as one', async (t) => {
  const upstream = await startRawUpstream(t, answerHeads(ok))
  const evil = 'x\r\nevil: y'
  for (const request of [
    { headers: ['x-a', evil] },
    { headers: [evil, 'x'] },
    { headers: ['host', evil] },
    { headers: ['host', 'a', 'host', 'b'] },
    { headers: ['transfer-encoding', 'chunked'] },
    { path: `/ HTTP/1.1\r\n${evil}` },
    { method: `GET / HTTP/1.1\r\n${evil}\r\n\r\nGET` },
  ])
    t.equal(await ask(upstream.url, request), 'protocol-error', JSON.stringify(request))
  t.same(upstream.received().join(''), '')
})

t.test('no more connections are open than may be, and an idle one makes room', async (t) => {
  const held: Socket[] = []
  const upstream = await startRawUpstream(
    t,
    (socket, soFar) => void (soFar.includes('/held') ? held.push(socket) : socket.write(ok)),
  )
  const other = await startRawUpstream(t, answerHeads(ok))
  const narrow = createEngine({ maxUpstreamConnections: 1 })
  t.teardown(() => narrow.close())
  t.equal(await ask(upstream.url, {}, narrow), '200 ok')
  t.equal(await ask(other.url, {}, narrow), '200 ok', 'the idle one gives way')
  const busy = ask(upstream.url, { path: '/held' }, narrow)
  await until(() => held.length === 1, 'the request')
  t.equal(await ask(other.url, {}, narrow), 'pool-exhausted')
  held[0]?.write(ok)
  t.equal(await busy, '200 ok')
  t.equal(await ask(other.url, {}, narrow), '200 ok')
})

t.test('a head that its last lines make too large is not sent, and its connection closes', async (t) => {
  const upstream = await startRawUpstream(t, answerHeads(ok))
  const prepare = () => new PreparedHeaders(['x-identity', 'a'.repeat(100)])
  t.equal(await ask(upstream.url, { prepare, headLimitBytes: 1_024 }), '200 ok')
  t.ok(upstream.received().join('').includes('x-identity'))
  const before = upstream.received().join('')
  t.equal(await ask(upstream.url, { prepare, headLimitBytes: 120 }), 'head-too-large')
  await passTurn()
  t.equal(upstream.received().join(''), before)
  t.equal(await ask(upstream.url, { headLimitBytes: 120 }), '200 ok')
})

t.test('an engine that closes breaks what is under way', async (t) => {
  const upstream = await startRawUpstream(t, () => {})
  const closing = createEngine()
  const answer = ask(upstream.url, {}, closing)
  await until(() => upstream.received()[0], 'the request')
  await closing.close()
  t.equal(await answer, 'no-response')
})

t.test('little is read of an answer without a taker, and much at once of one that is taken', async (t) => {
  const size = 4 * 1024 * 1024
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (soFar.endsWith('\r\n\r\n'))
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n${'x'.repeat(size)}`)
  })
  const answer = await engine.send({ ...get, origin: upstream.url })
  if ('connection' in answer) throw new Error('another protocol was not asked for')
  const chunks: number[] = []
  let isTaking = false
  let isWhole = false
  answer.pipe({
    data: (chunk) => {
      chunks.push(chunk.length)
      return isTaking
    },
    end: () => {
      isWhole = true
    },
    fail: ({ fault }) => t.fail(fault),
  })
  await sleep(100)
  t.ok(chunks.reduce((sum, bytes) => sum + bytes, 0) <= 32 * 1024, `${chunks} for a client that takes nothing`)
  isTaking = true
  answer.resume()
  await until(() => isWhole, 'the rest')
  t.equal(
    chunks.reduce((sum, bytes) => sum + bytes, 0),
    size,
  )
  t.ok(Math.max(...chunks) > 32 * 1024, `${Math.max(...chunks)} at once`)
})
