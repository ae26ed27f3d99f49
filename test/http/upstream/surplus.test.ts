import type { AddressInfo } from 'node:net'
import { createServer, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { createEngine } from '../../../gateway/http/create-engine.ts'
import type { Surplus, UpstreamRequest } from '../../../gateway/http/engine.ts'
import { createUpstreamTls } from '../../../gateway/http/tls/client.ts'
import { DistrustedOrigins } from '../../../gateway/http/upstream/surplus.ts'
import { createAuthority, ownNames, testCertificates } from '../../support/certificates.ts'
import { countHeads, passTurn, startRawUpstream, until } from '../../support/gateway.ts'

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const evil = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil'

/** An engine on a clock of the test, whose requests give their body or their fault. */
function openEngine(t: Test, maxUpstreamConnections = 1_000) {
  let passedMs = 0
  const seen: Surplus[] = []
  const engine = createEngine({
    maxUpstreamConnections,
    monotonicMs: () => performance.now() + passedMs,
    onSurplus: (surplus) => seen.push(surplus),
  })
  t.teardown(() => engine.close())
  const ask = async (origin: string, more: Partial<UpstreamRequest> = {}): Promise<string> => {
    const usual: UpstreamRequest = {
      origin,
      sharing: { upstream: 'platform', route: 'datasets.list', owner: 7, isIsolated: false },
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
    const answer = await engine.send({ ...usual, ...more }).catch((error: { fault: string }) => error.fault)
    if (typeof answer === 'string') return answer
    if ('connection' in answer) return 'joined'
    return new Promise((resolve) => {
      let text = ''
      const data = (chunk: Buffer): true => {
        text += chunk.toString('latin1')
        return true
      }
      answer.pipe({ data, end: () => resolve(text), fail: ({ fault }) => resolve(fault) })
    })
  }
  const pass = (ms: number): void => {
    passedMs += ms
  }
  return { engine, ask, seen, pass }
}

const kinds: Readonly<Record<string, readonly [kind: Surplus['kind'], method: string, answer: string]>> = {
  'a whole answer': ['body', 'GET', ok + evil],
  'a body to HEAD': ['head', 'HEAD', `${ok}${evil}`],
  'a body to 204': ['204', 'GET', `HTTP/1.1 204 No Content\r\n\r\n${evil}`],
  'a body to 304': ['304', 'GET', `HTTP/1.1 304 Not Modified\r\ncontent-length: 4\r\n\r\nevil`],
  'bytes behind the last chunk': [
    'body',
    'GET',
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${evil}`,
  ],
}
for (const [what, [kind, method, answer]] of Object.entries(kinds))
  t.test(`an upstream that sends ${what} beyond its answer is told by upstream, route and kind`, async (t) => {
    const upstream = await startRawUpstream(t, (socket) => void socket.write(answer))
    const { ask, seen, engine } = openEngine(t)
    await ask(upstream.url, { method })
    const told = { kind, origin: upstream.url, isCluster: false, upstream: 'platform', route: 'datasets.list' }
    t.same(seen, [{ ...told, isFirst: true }])
    t.equal(engine.countDistrustedOrigins(), 1)
  })

t.test('bytes that come while a connection is idle are surplus of its last answer', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => void socket.write(ok))
  const { ask, seen } = openEngine(t)
  t.equal(await ask(upstream.url), 'ok')
  await passTurn()
  upstream.sockets()[0]?.write(evil)
  await until(() => seen.length === 1, 'the surplus')
  t.match(seen, [{ kind: 'body', route: 'datasets.list' }])
})

t.test('bytes that come before the next request has left are surplus of the answer before it', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => void socket.write(ok))
  const { ask, seen } = openEngine(t)
  t.equal(await ask(upstream.url), 'ok')
  await passTurn()
  upstream.sockets()[0]?.write(evil)
  const sharing = { upstream: 'platform', route: 'innocent', owner: 7, isIsolated: false }
  t.equal(await ask(upstream.url, { sharing }), 'stale')
  t.match(seen, [{ kind: 'body', route: 'datasets.list' }])
})

t.test('a server that announces its close of an idle connection by 408 is believed', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => void socket.write(ok))
  const { ask, engine } = openEngine(t)
  t.equal(await ask(upstream.url), 'ok')
  await passTurn()
  upstream.sockets()[0]?.end('HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n')
  await until(() => engine.countUpstreamConnections().size === 0, 'the close')
  t.equal(engine.countDistrustedOrigins(), 0)
})

t.test('an origin that sent surplus serves one request a connection, for ten minutes', async (t) => {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    // Obeys `Connection: close`, as a server does.
    if (soFar.endsWith('\r\n\r\n')) socket[soFar.includes('connection: close') ? 'end' : 'write'](ok)
  })
  const { ask, pass, engine } = openEngine(t)
  t.equal(await ask(upstream.url), 'ok')
  await passTurn()
  upstream.sockets()[0]?.write(evil)
  await until(() => engine.countDistrustedOrigins() === 1, 'the surplus')
  for (let count = 0; count < 3; count++) {
    t.equal(await ask(upstream.url), 'ok')
    await passTurn()
  }
  t.equal(upstream.sockets().length, 4)
  t.match(upstream.received().slice(1), Array(3).fill(/\r\nconnection: close\r\n/))
  pass(600_001)
  t.equal(engine.countDistrustedOrigins(), 0)
  t.equal(await ask(upstream.url), 'ok')
  await passTurn()
  t.equal(await ask(upstream.url), 'ok')
  t.equal(upstream.sockets().length, 5, 'it is believed again')
})

t.test('connections that were idle when their origin sent surplus serve no other request', async (t) => {
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (soFar.endsWith('\r\n\r\n')) setTimeout(() => socket.write(ok), 20)
  })
  const { ask, engine } = openEngine(t)
  t.same(await Promise.all([ask(upstream.url), ask(upstream.url)]), ['ok', 'ok'])
  await passTurn()
  upstream.sockets()[0]?.write(evil)
  await until(() => engine.countDistrustedOrigins() === 1, 'the surplus')
  t.equal(await ask(upstream.url), 'ok')
  t.equal(upstream.sockets().length, 3)
})

t.test(
  'a connection that served its one request waits for its upstream to close, and is reset if that is late',
  async (t) => {
    const upstream = await startRawUpstream(t, (socket, soFar) => {
      socket.on('error', () => undefined)
      socket.write(countHeads(soFar) === 1 ? ok : 'x')
    })
    const { ask, engine } = openEngine(t)
    t.equal(await ask(upstream.url), 'ok')
    await passTurn()
    upstream.sockets()[0]?.write(evil)
    await until(() => engine.countDistrustedOrigins() === 1, 'the surplus')
    t.equal(await ask(upstream.url), 'ok')
    t.equal(engine.countUpstreamConnections().get(upstream.url), 1)
    await until(() => engine.countUpstreamConnections().size === 0, 'the reset')
    await until(() => upstream.sockets()[1]?.errored, 'the reset, at the upstream')
    t.match(upstream.sockets()[1]?.errored, { code: 'ECONNRESET' })
  },
)

testCertificates(t, 'a TLS connection that served its one request is closed, if its upstream does not', async (t) => {
  const { issue, cert } = createAuthority(t)
  const server = createServer({ ...issue(ownNames) }, (socket) => {
    socket.on('error', () => undefined)
    socket.on('data', () => void socket.write(ok))
  })
  const open: TLSSocket[] = []
  server.on('secureConnection', (socket) => open.push(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const tls = createUpstreamTls('platform', { ca: cert }, undefined)
  const { ask, engine } = openEngine(t)
  t.equal(await ask(`https://localhost:${port}`, { tls }), 'ok')
  await passTurn()
  open[0]?.write(evil)
  await until(() => engine.countDistrustedOrigins() === 1, 'the surplus')
  t.equal(await ask(`https://localhost:${port}`, { tls }), 'ok')
  await until(() => open.length === 2 && open.every((socket) => socket.destroyed || socket.readableEnded), 'the close')
  t.equal(engine.countUpstreamConnections().size, 0)
})

t.test('connections that wait for their close, or for their turn, make room for others', async (t) => {
  const upstream = await startRawUpstream(t, (socket) => void socket.on('error', () => undefined).write(ok))
  const { ask, engine } = openEngine(t, 2)
  for (let count = 0; count < 20; count++) t.equal(await ask(upstream.url), 'ok')
  await passTurn()
  upstream.sockets().at(-1)?.write(evil)
  await until(() => engine.countDistrustedOrigins() === 1, 'the surplus')
  for (let count = 0; count < 20; count++) t.equal(await ask(upstream.url), 'ok')
})

t.test('a crowd of clusters that lie has no believed origin forgotten', async (t) => {
  let nowMs = 0
  const distrusted = new DistrustedOrigins(
    () => undefined,
    () => nowMs,
    3,
  )
  const lie = (origin: string, isCluster = true): void =>
    distrusted.note({ kind: 'body', origin, isCluster, upstream: '', route: undefined })
  for (const origin of ['a', 'b', 'c', 'd']) lie(origin)
  t.equal(distrusted.size, 3)
  t.same(
    ['a', 'd', 'new'].map((origin) => distrusted.has(origin, true)),
    [true, true, true],
    'no cluster is believed while none can be remembered',
  )
  t.equal(distrusted.has('platform', false), false)
  lie('platform', false)
  t.equal(distrusted.has('platform', false), true)
  nowMs = 600_000
  t.equal(distrusted.size, 0)
})
