import type { ChildProcess } from 'node:child_process'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { openRawClient, openRoute, startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { handshake, socketRoute, switching } from '../support/websocket.ts'
import { namespaceLack, startOtherMachine } from './network-namespace.ts'

const streamRoute = { ...openRoute, surface: 'model' }

const timeouts = { clientIdleMs: 1_000, keepAliveMs: 200, streamIdleMs: 600_000 }

function hear(child: ChildProcess): () => string {
  let text = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1')
  })
  return () => text
}

const script = (host: string, port: string, bytes: string): string =>
  `const s = require('node:net').connect(${port}, '${host}', () => s.write(${JSON.stringify(bytes)})); s.pipe(process.stdout)`

const metric = async (admin: string, name: string): Promise<number> => {
  const { text } = await call(admin, { path: '/metrics' })
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.split(' ')[1] ?? 0,
  )
}

const stalled = 'sallyport_connections_dropped_total{listener="public",reason="stalled"}'

async function start(t: Test, host: string, url: string, route: Readonly<Record<string, unknown>> = socketRoute) {
  const gateway = await startTestGateway(t, {
    routes: [route],
    settings: {
      timeouts,
      listeners: { public: { host, port: 0 }, decision: { host, port: 0 }, admin: { host: '127.0.0.1', port: 0 } },
    },
    upstreams: { platform: { url } },
  })
  return { gateway, port: new URL(gateway.public).port }
}

/** An event stream that never ends, and sends nothing by itself. */
async function startStream(t: Test): Promise<Readonly<{ url: string; open: () => number }>> {
  const streams = new Set<ServerResponse>()
  const server: Server = createServer((_request, response) => {
    streams.add(response)
    response.on('close', () => streams.delete(response))
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: {}\n\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, open: () => streams.size }
}

/** The system gives up after a quarter of an hour; the test's limit is far below it, and far above the gateway's. */
const soonMs = 60_000

const run = async (t: Test): Promise<void> => {
  await t.test('the client of a stream that is gone without a word is cut, and its upstream freed', async (t) => {
    const machine = startOtherMachine(t)
    const upstream = await startStream(t)
    const { gateway, port } = await start(t, machine.here, upstream.url, streamRoute)
    const text = hear(machine.run(script(machine.here, port, 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n')))
    await until(() => text().includes('data: {}'), 'the stream', 20_000)
    await until(
      () => (text().match(/: ?keep-?alive|\n:/g) ?? []).length > 20,
      'some seconds of a stream that is well',
      30_000,
    )
    t.equal(await metric(gateway.admin, stalled), 0)
    machine.vanish()
    await until(() => upstream.open() === 0, 'the end of the upstream', soonMs)
    t.equal(await metric(gateway.admin, stalled), 1)
  })

  await t.test(
    'the client of a WebSocket that is gone without a word is cut, while its upstream goes on to speak',
    async (t) => {
      const machine = startOtherMachine(t)
      const upstream = await startRawUpstream(t, (socket) => socket.write(switching))
      const { gateway, port } = await start(t, machine.here, upstream.url)
      const text = hear(machine.run(script(machine.here, port, handshake())))
      await until(() => text().includes(' 101 '), 'the switch', 20_000)
      const [socket] = upstream.sockets()
      const speaking = setInterval(() => socket?.write('x'), 100)
      t.teardown(() => clearInterval(speaking))
      machine.vanish()
      await until(() => socket?.destroyed || socket?.readableEnded, 'the end of the upstream', soonMs)
      t.equal(await metric(gateway.admin, stalled), 1)
    },
  )

  await t.test(
    'the upstream of a WebSocket that is gone without a word is cut, while its client goes on to speak',
    async (t) => {
      const machine = startOtherMachine(t)
      const child = machine.run(
        `require('node:net').createServer((s) => { s.on('error', () => {}); s.once('data', () => s.write(${JSON.stringify(switching)})) })
        .listen(8080, '${machine.there}', () => console.log('listening'))`,
      )
      const text = hear(child)
      await until(() => text().includes('listening'), 'the upstream', 20_000)
      const { gateway } = await start(t, machine.here, `http://${machine.there}:8080`)
      const client = await openRawClient(t, gateway.public)
      client.send(handshake())
      await client.until(/ 101 /)
      const speaking = setInterval(() => client.socket.write('x'), 100)
      t.teardown(() => clearInterval(speaking))
      machine.vanish()
      await until(() => client.socket.destroyed || client.socket.closed, 'the end of the client', soonMs)
      t.equal(await metric(gateway.admin, stalled), 1)
    },
  )
}

testUnlessLacking(t, 'peers that are gone without a word', run, namespaceLack)
