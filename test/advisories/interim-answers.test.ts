import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, openRoute, startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { isAlive, type Serving, startServing } from '../support/serve.ts'

const whole = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen'

const path = '/x'

/** A gateway in a process of its own, open to all, and to WebSockets. */
function serve(t: Test, upstream: string): Promise<Serving> {
  const folder = dirname(writeConfiguration(t, { routes: [{ ...openRoute, websocket: true }] }))
  return startServing(t, { upstream, settings: { policies: { directory: join(folder, 'policies') } } })
}

/** The same beside the test, where the count of calls on a stack does not matter. */
async function serveHere(t: Test, url: string): Promise<string> {
  const gateway = await startTestGateway(t, {
    routes: [{ ...openRoute, websocket: true }],
    upstreams: { platform: { url } },
  })
  return gateway.public
}

const handshake =
  `GET ${path}?attack HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n` +
  'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n'

/** An upstream that answers each request with what `answer` says, and the plain path with 200. */
async function startUpstream(t: Test, answer: (socket: Socket) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      if (bytes.toString('latin1').startsWith(`GET ${path}?attack `)) answer(socket)
      else socket.write(whole)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}

const heads: Readonly<Record<string, string>> = {
  'the shortest heads': 'HTTP/1.1 102\r\n\r\n',
  'heads with a line': 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n',
  'heads with a length': 'HTTP/1.1 199 Odd\r\nContent-Length: 5\r\n\r\n',
}

// Apache CVE-2008-2364, h2o CVE-2017-10869. In a process that has compiled nothing yet a stack holds the fewest calls.
for (const [name, head] of Object.entries(heads))
  t.test(`no number of interim answers ends the process: 16,000 of ${name}, as its first answer`, async (t) => {
    const upstream = await startUpstream(t, (socket) => socket.write(head.repeat(16_000) + whole))
    const serving = await serve(t, upstream)
    // An answer that may switch protocols is read in the largest pieces.
    const client = await openRawClient(t, serving.public)
    client.send(handshake)
    t.match(await client.closed(), /^HTTP\/1\.1 503 /)
    t.equal((await call(serving.public, { path: `${path}?attack` })).status, 503)
    t.equal((await call(serving.public, { path })).status, 200)
    t.ok(isAlive(serving.pid))
    t.notMatch(serving.stdout(), /uncaught|call stack/)
  })

t.test('as many interim answers as are allowed pass, and one more is a broken answer', async (t) => {
  let answer = ''
  const upstream = await startUpstream(t, (socket) => socket.write(answer))
  const url = await serveHere(t, upstream)
  const statusFor = async (bytes: string): Promise<number> => {
    answer = bytes
    return (await call(url, { path: `${path}?attack` })).status
  }
  const short = 'HTTP/1.1 102\r\n\r\n'
  const long = `HTTP/1.1 103 Early Hints\r\nLink: ${'x'.repeat(3_000)}\r\n\r\n`
  t.equal(await statusFor(short.repeat(32) + whole), 200)
  t.equal(await statusFor(short.repeat(33) + whole), 503)
  t.equal(await statusFor(long.repeat(21) + whole), 200, 'almost 64 KiB')
  t.equal(await statusFor(long.repeat(22) + whole), 503, 'more than 64 KiB')
})

const unasked: Readonly<Record<string, string>> = {
  'a 100': 'HTTP/1.1 100 Continue\r\n\r\n',
  'a 100 of HTTP/1.0': 'HTTP/1.0 100 Continue\r\n\r\n',
  'a 102 of HTTP/1.0': 'HTTP/1.0 102 Processing\r\n\r\n',
  'a 103 of HTTP/1.0 that closes': 'HTTP/1.0 103 Early Hints\r\nConnection: close\r\n\r\n',
  'a 100 with a length': 'HTTP/1.1 100 Continue\r\nContent-Length: 4\r\n\r\n',
  'a 100 in chunks': 'HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n',
  'a 100 that closes': 'HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n',
  'a 104 of no name': 'HTTP/1.1 104\r\n\r\n',
  'a 199': 'HTTP/1.1 199 Odd\r\n\r\n',
  'several of them': 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 100\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n',
}

// An SDK that retries 503 ran one call three times, since each had been executed behind a 100.
t.test('an interim answer that was not asked for is ignored', async (t) => {
  let answer = ''
  let asked = 0
  const upstream = await startUpstream(t, (socket) => {
    asked += 1
    socket.write(answer)
  })
  const url = await serveHere(t, upstream)
  for (const [name, head] of Object.entries(unasked)) {
    answer = head + whole
    for (const connection of ['close', 'keep-alive']) {
      const { status, text } = await call(url, { path: `${path}?attack`, headers: { connection } })
      t.same([status, text], [200, 'seen'], `${name}, ${connection}`)
    }
  }
  t.equal(asked, 2 * Object.keys(unasked).length, 'each was asked once')
})

t.test('a 101 that was not asked for is a broken answer, and so is one of another version', async (t) => {
  let answer = ''
  const upstream = await startUpstream(t, (socket) => socket.write(answer))
  const url = await serveHere(t, upstream)
  for (const head of [
    'HTTP/1.1 101 Switching Protocols',
    'HTTP/1.0 101',
    'HTTP/2.0 100',
    'HTTP/0.9 103',
    'HTTP/1.1 099',
  ]) {
    answer = `${head}\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n${whole}`
    t.equal((await call(url, { path: `${path}?attack` })).status, 503, head)
  }
})

t.test('interim answers one by one are counted as well', async (t) => {
  const sockets: Socket[] = []
  const upstream = await startUpstream(t, (socket) => {
    sockets.push(socket)
    const drip = (left: number): void => {
      if (socket.destroyed) return
      socket.write('HTTP/1.1 102 Processing\r\n\r\n')
      if (left > 0) setTimeout(drip, 2, left - 1)
    }
    drip(100)
  })
  const url = await serveHere(t, upstream)
  t.equal((await call(url, { path: `${path}?attack` })).status, 503)
  await until(() => sockets.every(({ destroyed }) => destroyed), 'the end of its connection')
})
