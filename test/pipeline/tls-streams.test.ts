import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { createAuthority, type Issued, ownNames, testCertificates } from '../support/certificates.ts'
import { call } from '../support/client.ts'
import { startFairClock } from '../support/fair-clock.ts'
import { openRawClient, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { callSecurely, openSecureClient, toSecure } from '../support/secure-client.ts'
import { handshake, socketRoute, switching } from '../support/websocket.ts'

type Options = Readonly<{
  url: string
  own: Issued
  maxConnections?: number
  timeouts?: Readonly<Record<string, number>>
  route?: Readonly<Record<string, unknown>>
}>

async function start(t: Test, { url, own, maxConnections = 100, timeouts = {}, route }: Options) {
  const place = { host: '127.0.0.1', port: 0 }
  const tls = { cert: own.cert, key: own.key }
  const gateway = await startTestGateway(t, {
    routes: [{ ...socketRoute, ...route }],
    upstreams: { platform: { url } },
    settings: {
      timeouts,
      listeners: { public: { ...place, maxConnections, tls }, decision: place, admin: place },
    },
  })
  const metric = async (labelled: string): Promise<number> => {
    const { text } = await call(gateway.admin, { path: '/metrics' })
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(labelled))
        ?.split(' ')
        .at(-1),
    )
  }
  return { gateway, metric, url: toSecure(gateway.public) }
}

const get = 'GET /x HTTP/1.1\r\nHost: h\r\n\r\n'

testCertificates(t, 'long connections on TLS', async (t) => {
  const authority = createAuthority(t)
  const own = authority.issue(ownNames)
  const ca = authority.cert

  await t.test('events pass as they come, and a client that leaves releases the upstream', async (t) => {
    let asking: Socket | undefined
    const upstream = await startRawUpstream(t, (socket) => {
      asking = socket
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n')
    })
    const { url } = await start(t, { own, url: upstream.url, route: { surface: 'model' } })
    const client = await openSecureClient(t, url, { ca })
    client.send(get)
    await until(() => asking, 'the request')
    for (const id of [1, 2, 3]) {
      asking?.write(`data: {"type":"response.output_text.delta","sequence_number":${id}}\n\n`)
      await client.until(new RegExp(`"sequence_number":${id}\\}`))
    }
    client.secure.destroy()
    await until(() => upstream.sockets()[0]?.destroyed || upstream.sockets()[0]?.readableEnded, 'the end', 1_500)
  })

  await t.test('a WebSocket is joined, and its last bytes arrive', async (t) => {
    const upstream = await startRawUpstream(t, (socket, soFar) => {
      const [, said] = soFar.split('\r\n\r\n')
      socket.write(said === '' ? switching : `heard ${said}`)
    })
    const { url } = await start(t, { own, url: upstream.url })
    const client = await openSecureClient(t, url, { ca })
    client.send(handshake())
    await client.until(/^HTTP\/1\.1 101 [\s\S]*\r\n\r\n$/)
    client.send('hello')
    await client.until(/heard hello$/)
    upstream.sockets()[0]?.end('the last word')
    t.match(await client.closed(), /the last word$/)
  })

  await t.test('an upgrade to something else is a request like any other', async (t) => {
    const upstream = await startRawUpstream(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen')
    })
    const { url } = await start(t, { own, url: upstream.url })
    const client = await openSecureClient(t, url, { ca })
    client.send('GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n')
    await client.until(/seen$/)
    t.notMatch(upstream.received()[0], /h2c/)
    client.send(get)
    await client.until(/seen[\s\S]*seen$/)
  })

  await t.test('large bodies pass whole, both ways', async (t) => {
    const upstream = await startHttpUpstream(t, (request, response) => request.pipe(response))
    const { url } = await start(t, { own, url: upstream.url })
    const body = randomBytes(12 * 1024 * 1024)
    const hash = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
    for (const headers of [{ 'content-length': String(body.length) }, { 'transfer-encoding': 'chunked' }]) {
      const answer = await callSecurely(url, '/x', { ca }, { method: 'POST', headers, body })
      t.equal(hash(answer.body), hash(body))
    }
  })

  await t.test('a handshake that takes too long is cut, wherever it stands', async (t) => {
    const upstream = await startHttpUpstream(t)
    const { gateway, metric, url } = await start(t, {
      own,
      url: upstream.url,
      timeouts: { handshakeMs: 1_500 },
    })
    const silent = await openRawClient(t, gateway.public)
    const slow = await openRawClient(t, gateway.public)
    // The record of a ClientHello, and nothing in it.
    slow.send(Buffer.from([22, 3, 1, 2, 0, 1, 0]))
    await until(async () => (await metric('sallyport_connections_open{listener="public"}')) === 2, 'both counted')
    t.equal(await silent.closed(), '')
    await slow.closed()
    t.equal(await metric('sallyport_connections_dropped_total{listener="public",reason="handshake"}'), 2)
    const { port } = new URL(gateway.public)
    const probe = connect(Number(port), '127.0.0.1')
    await once(probe, 'connect')
    probe.destroy()
    t.equal((await callSecurely(url, '/x', { ca })).status, 200)
    await until(async () => (await metric('sallyport_connections_open{listener="public"}')) === 0, 'all gone')
    t.equal(
      await metric('sallyport_connections_dropped_total{listener="public",reason="handshake"}'),
      2,
      'a probe of the port is not counted',
    )
  })

  await t.test('a client that is silent after the handshake is cut, without a request', async (t) => {
    const upstream = await startHttpUpstream(t)
    const { url, metric } = await start(t, { own, url: upstream.url, timeouts: { headersMs: 300 } })
    const client = await openSecureClient(t, url, { ca })
    t.match(await client.closed(), /^HTTP\/1\.1 408 /)
    t.ok(Number.isNaN(await metric('sallyport_malformed_requests_total{')), 'a handshake is no part of a request')
  })

  await t.test('connections are counted before their handshakes, and give their places back', async (t) => {
    const upstream = await startHttpUpstream(t)
    const { gateway, url } = await start(t, { own, url: upstream.url, maxConnections: 2 })
    const inside = [await openRawClient(t, gateway.public), await openSecureClient(t, url, { ca })]
    t.equal(await (await openRawClient(t, gateway.public)).closed(), '')
    for (const { socket } of inside) socket.destroy()
    await until(
      () =>
        callSecurely(url, '/x', { ca }).then(
          ({ status }) => status === 200,
          () => false,
        ),
      'a free place',
    )
  })

  await t.test('a client that takes nothing is cut', async (t) => {
    const upstream = await startHttpUpstream(t, (_request, response) => {
      response.end(Buffer.alloc(30 * 1024 * 1024))
    })
    const { url, metric } = await start(t, { own, url: upstream.url, timeouts: { clientIdleMs: 400 } })
    const client = await openSecureClient(t, url, { ca })
    client.secure.pause()
    client.send(get)
    const stalled = 'sallyport_connections_dropped_total{listener="public",reason="stalled"}'
    await until(async () => (await metric(stalled)) === 1, 'the cut')
    await until(async () => (await metric('sallyport_connections_open{listener="public"}')) === 0, 'its end')
  })

  await t.test('a drain waits for answers, and neither for handshakes nor for idle connections', async (t) => {
    const upstream = await startRawUpstream(t, (socket) => {
      setTimeout(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen'), 300)
    })
    const { gateway, url } = await start(t, { own, url: upstream.url })
    await openRawClient(t, gateway.public)
    await openSecureClient(t, url, { ca })
    const client = await openSecureClient(t, url, { ca })
    client.send(get)
    await until(() => upstream.received()[0], 'the request')
    const passedMs = startFairClock(t)
    await gateway.drain({ delayMs: 0, timeoutMs: 8_000 })
    t.ok(passedMs() < 6_000, `${passedMs()} ms`)
    t.match(client.text(), /seen$/)
  })
})
