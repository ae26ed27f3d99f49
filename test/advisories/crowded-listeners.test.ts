import { once } from 'node:events'
import { request } from 'node:https'
import { connect, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createEngine } from '../../gateway/http/create-engine.ts'
import type { ListenerOptions } from '../../gateway/http/engine.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { createAuthority, ownNames, testCertificates } from '../support/certificates.ts'
import { call } from '../support/client.ts'
import { openRawClient, startTestGateway, until, watchClient } from '../support/gateway.ts'
import { listenerOptions } from '../support/listener-options.ts'
import { prepareLogouts, push, statusOf } from '../support/logout-fixture.ts'
import { gatherThrong } from '../support/throng.ts'
import { startGroup } from '../support/workers.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const fixture = await prepareLogouts(t, world)
const startGateway = (t: Test, signals: object = {}) => {
  const { listeners } = fixture.settings
  const settings = { ...fixture.settings, listeners: { ...listeners, signals: { ...listeners.signals, ...signals } } }
  return startTestGateway(t, { world, settings })
}

const engine = createEngine()
t.teardown(() => engine.close())

async function listen(t: Test, handle: (exchange: Exchange) => void, options: Partial<ListenerOptions> = {}) {
  const dropped: string[] = []
  const onDropped = (reason: string): void => void dropped.push(reason)
  const listener = await engine.listen(
    { ...listenerOptions, maxConnections: 8, displacesIdle: true, onDropped, ...options },
    handle,
  )
  t.teardown(async () => {
    const closed = listener.close()
    listener.destroy()
    await closed
  })
  return { listener, origin: `http://127.0.0.1:${listener.address.port}`, dropped }
}

const answerOk = (exchange: Exchange): void => exchange.respond({ status: 200, headers: [] }, 'ok')

/** Loopback has as many addresses as a crowd may want. */
async function connectFrom(t: Test, origin: string, localAddress: string, count = 1) {
  const { hostname, port } = new URL(origin)
  const one = async () => {
    const socket = connect({ port: Number(port), host: hostname, localAddress })
    t.teardown(() => socket.destroy())
    const client = watchClient(socket)
    let isOpen = true
    socket.on('close', () => {
      isOpen = false
    })
    await once(socket, 'connect')
    return { ...client, isOpen: () => isOpen }
  }
  const clients: Awaited<ReturnType<typeof one>>[] = []
  for (let index = 0; index < count; index += 1) clients.push(await one())
  return clients
}

const countOpen = (clients: readonly Readonly<{ isOpen: () => boolean }>[]): number =>
  clients.filter((client) => client.isOpen()).length

const get = 'GET / HTTP/1.1\r\nHost: h\r\n\r\n'

const addresses = (count: number): readonly string[] => Array.from({ length: count }, (_, at) => `127.0.1.${at + 1}`)

for (const size of [100, 300])
  for (const [kind, from] of [
    ['one address', ['127.0.0.2']],
    ['many addresses', addresses(50)],
    ['the same address', ['127.0.0.1']],
  ] as const)
    t.test(`${size} silent connections of ${kind} keep no logout and no health check out`, async (t) => {
      const gateway = await startGateway(t)
      const silent = async (origin: string) => {
        for (const address of from) await connectFrom(t, origin, address, Math.ceil(size / from.length))
      }
      await Promise.all([silent(gateway.signals), silent(gateway.admin)])
      for (let count = 0; count < 20; count += 1) {
        const subject = await fixture.addSubject()
        const jwt = await fixture.issuer.sign({ sub: subject })
        t.equal((await push(gateway, await fixture.signLogout({ sub: subject }))).status, 200)
        t.equal(await statusOf(gateway, jwt), 401)
        t.equal((await call(gateway.admin, { path: '/healthz' })).status, 200)
      }
    })

t.test('a crowd that comes again at once keeps no logout and no health check out', async (t) => {
  const gateway = await startGateway(t)
  const open = new Set<Socket>()
  let isOver = false
  let comings = 0
  const come = (origin: string, localAddress: string): void => {
    if (isOver) return
    comings += 1
    const { hostname, port } = new URL(origin)
    const socket = connect({ port: Number(port), host: hostname, localAddress })
    socket.on('error', () => undefined)
    open.add(socket)
    socket.on('close', () => {
      open.delete(socket)
      setImmediate(come, origin, localAddress)
    })
  }
  t.teardown(() => {
    isOver = true
    for (const socket of open) socket.destroy()
  })
  for (const address of addresses(150)) for (const origin of [gateway.signals, gateway.admin]) come(origin, address)
  await until(() => comings > 1_000, 'the crowd')
  for (let count = 0; count < 20; count += 1) {
    const token = await fixture.signLogout({ sub: await fixture.addSubject() })
    t.equal((await push(gateway, token)).status, 200)
    t.equal((await call(gateway.admin, { path: '/healthz' })).status, 200)
  }
})

t.test('workers, each with places of its own, keep no decision out either', async (t) => {
  const place = { host: '127.0.0.1', port: 0, maxConnections: 5 }
  const listeners = { public: place, decision: place, admin: place }
  const serving = await startGroup(t, { upstream: 'http://127.0.0.1:1', settings: { listeners } })
  await Promise.all([gatherThrong(t, serving.decision, 60), gatherThrong(t, serving.admin, 60)])
  for (let count = 0; count < 20; count += 1) {
    t.equal((await call(serving.decision, { path: '/authorize' })).status, 400, 'it names no request')
    t.equal((await call(serving.admin, { path: '/healthz' })).status, 200)
  }
})

testCertificates(t, 'a crowd that begins no TLS handshake keeps no other client out', async (t) => {
  const authority = createAuthority(t)
  const identity = authority.issue(ownNames)
  const tls = { identity, minVersion: 'TLSv1.2', handshakeTimeoutMs: 10_000 } as const
  const { origin, dropped } = await listen(t, answerOk, { tls })
  await connectFrom(t, origin, '127.0.0.2', 30)
  const ask = (): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      request(origin.replace('http', 'https'), { ca: authority.cert, agent: false }, ({ statusCode }) =>
        resolve(statusCode),
      )
        .on('error', reject)
        .end()
    })
  for (let count = 0; count < 20; count += 1) t.equal(await ask(), 200)
  t.ok(dropped.every((reason) => reason === 'displaced'))
})

t.test('idle connections of a proxy stay while a crowd comes, silent or in the midst of a request', async (t) => {
  for (const begun of ['', 'GET / HT', 'POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1'])
    for (const address of ['127.0.0.2', '127.0.0.1']) {
      const { origin, listener } = await listen(t, (exchange) => {
        if (exchange.method === 'GET') answerOk(exchange)
      })
      const proxy = await connectFrom(t, origin, '127.0.0.1', 4)
      for (const client of proxy) {
        client.send(get)
        await client.until(/ok$/)
      }
      for (let count = 0; count < 40; count += 1) {
        const [client] = await connectFrom(t, origin, address)
        client?.send(begun)
      }
      t.equal(countOpen(proxy), 4)
      await until(() => listener.countConnections() <= 8, 'that the others are gone')
      for (const client of proxy) client.send(get)
      for (const client of proxy) t.match(await client.until(/ok[\s\S]+ok$/), /ok$/)
    }
})

t.test('a request in flight stays, and an idle connection counts from its latest', async (t) => {
  const held: Exchange[] = []
  const { origin, dropped } = await listen(t, (exchange) => {
    if (exchange.target === '/held') held.push(exchange)
    else answerOk(exchange)
  })
  const [busy] = await connectFrom(t, origin, '127.0.0.2')
  busy?.send('GET /held HTTP/1.1\r\nHost: h\r\n\r\n')
  await until(() => held.length === 1, 'the request')
  const others = []
  for (const address of addresses(7)) others.push(...(await connectFrom(t, origin, address)))
  for (const client of others) {
    client.send(get)
    await client.until(/ok$/)
  }
  others[0]?.send(get)
  await others[0]?.until(/ok[\s\S]+ok$/)
  const [first] = await connectFrom(t, origin, '127.0.0.3')
  first?.send(get)
  await first?.until(/ok$/)
  await others[1]?.closed()
  t.equal(countOpen(others), 6, 'the one whose last request was the longest ago')
  t.ok(others[0]?.isOpen() && busy?.isOpen())
  held.map(answerOk)
  t.match(await busy?.until(/ok$/), /ok$/)
  t.same(dropped, ['displaced'])
})

t.test('requests that one address keeps in flight leave places to others', async (t) => {
  const held: Exchange[] = []
  const { origin, dropped } = await listen(t, (exchange) => {
    if (exchange.peerAddress.endsWith('127.0.0.2')) held.push(exchange)
    else answerOk(exchange)
  })
  for (let count = 1; count <= 8; count += 1) {
    const [client] = await connectFrom(t, origin, '127.0.0.2')
    client?.send(get)
    await until(() => held.length === Math.min(count, 6) && dropped.length === Math.max(0, count - 6), 'the request')
  }
  t.same(dropped, ['limit', 'limit'], 'beyond three quarters')
  for (let count = 0; count < 20; count += 1) t.equal((await call(origin, { path: '/' })).status, 200)
})

t.test('clients that do not take their responses keep no other client out', async (t) => {
  // More than the system buffers for a client.
  const large = 'x'.repeat(16 * 1024 * 1024)
  let waiting = 0
  const { origin, dropped } = await listen(t, (exchange) => {
    if (exchange.target !== '/large') answerOk(exchange)
    else {
      exchange.respond({ status: 200, headers: [] }, large)
      waiting += 1
    }
  })
  const { port } = new URL(origin)
  for (let count = 0; count < 8; count += 1) {
    // Without a listener nothing is read.
    const socket = connect({ port: Number(port), host: '127.0.0.1', localAddress: `127.0.0.${2 + (count % 2)}` })
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined)
    socket.write('GET /large HTTP/1.1\r\nHost: h\r\n\r\n')
  }
  await until(() => waiting === 8, 'the large responses')
  await setTimeout(100)
  const [proxy] = await connectFrom(t, origin, '127.0.0.1')
  proxy?.send(get)
  t.match(await proxy?.until(/ok$/), /ok$/)
  for (let count = 0; count < 7; count += 1) t.equal((await call(origin, { path: '/' })).status, 200)
  t.ok(proxy?.isOpen(), 'nor does an idle connection go before them')
  t.ok(dropped.length > 0 && dropped.every((reason) => reason === 'displaced'))
})

t.test('an address beyond its share takes the places of its own, and those of no slower caller', async (t) => {
  const { origin } = await listen(t, answerOk)
  const [slow] = await connectFrom(t, origin, '127.0.0.3')
  slow?.send('GET / HTT')
  for (let count = 0; count < 40; count += 1) {
    const [client] = await connectFrom(t, origin, '127.0.0.2')
    client?.send(get)
    await client?.until(/ok$/)
  }
  slow?.send('P/1.1\r\nHost: h\r\n\r\n')
  t.match(await slow?.until(/ok$/), /ok$/)
})

t.test('strangers leave the places of an address that has sent a fresh logout, and a replay earns none', async (t) => {
  const gateway = await startGateway(t, { maxConnections: 8 })
  const token = await fixture.signLogout({ sub: await fixture.addSubject() })
  const send = (localAddress: string) =>
    call(gateway.signals, {
      method: 'POST',
      path: '/backchannel-logout',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: `logout_token=${token}`,
      localAddress,
    })
  const openFrom = async (...from: readonly string[]) =>
    (await Promise.all(from.map((address) => connectFrom(t, gateway.signals, address, 4)))).flat()
  const early = await openFrom('127.0.0.2', '127.0.0.3')
  t.equal(countOpen(early), 8, 'no places are kept for an unknown address')
  t.equal((await send('127.0.0.4')).status, 200)
  t.equal((await send('127.0.0.5')).status, 200, 'a replay')
  const issuer = await connectFrom(t, gateway.signals, '127.0.0.4', 2)
  const late = await openFrom('127.0.0.2', '127.0.0.5')
  await until(() => countOpen([...early, ...late]) === 6, 'that six strangers are left')
  t.equal(countOpen(issuer), 2)
})

t.test('a logout that is sent slowly ends after five seconds', async (t) => {
  const gateway = await startGateway(t)
  const client = await openRawClient(t, gateway.signals)
  const startedMs = performance.now()
  client.send(
    'POST /backchannel-logout HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000\r\n\r\n',
  )
  const dripping = setInterval(() => client.socket.writable && client.send('a'.repeat(50)), 100)
  t.teardown(() => clearInterval(dripping))
  await setTimeout(4_000)
  t.match(await client.closed(), /^HTTP\/1\.1 408 /)
  t.ok(performance.now() - startedMs < 10_000)
})

t.test('a drain among a crowd answers the logout under way and each health check, and ends', async (t) => {
  const gateway = await startGateway(t, { maxConnections: 8 })
  const subject = await fixture.addSubject()
  const jwt = await fixture.issuer.sign({ sub: subject })
  t.equal(await statusOf(gateway, jwt), 200)
  const body = `logout_token=${await fixture.signLogout({ sub: subject })}`
  const crowd = await Promise.all(addresses(20).map((address) => connectFrom(t, gateway.signals, address)))
  const silent = await Promise.all(addresses(150).map((address) => connectFrom(t, gateway.admin, address)))
  const logout = await openRawClient(t, gateway.signals)
  const type = 'Content-Type: application/x-www-form-urlencoded'
  logout.send(`POST /backchannel-logout HTTP/1.1\r\nHost: h\r\n${type}\r\nContent-Length: ${body.length}\r\n\r\n`)
  const drained = gateway.drain({ delayMs: 500, timeoutMs: 600_000 })
  t.match(await call(gateway.admin, { path: '/healthz' }), { status: 200 })
  t.match(await call(gateway.admin, { path: '/readyz' }), { status: 503 })
  logout.send(body)
  t.match(await logout.closed(), /^HTTP\/1\.1 200 [\s\S]*\r\nconnection: (?:close|keep-alive)\r\n/i)
  await drained
  await until(() => countOpen([...crowd, ...silent].flat()) === 0, 'that the crowd is gone')
  t.equal(await statusOf(await startGateway(t), jwt), 401, 'the next gateway knows of the logout')
})
