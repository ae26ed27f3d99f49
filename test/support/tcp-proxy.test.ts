import { once } from 'node:events'
import { type AddressInfo, connect, createServer, Socket } from 'node:net'
import t, { type Test } from 'tap'
import { openRawClient, startRawUpstream, until } from './gateway.ts'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts'
import type { HearServer, TcpLink } from './tcp-wire.ts'

/** A server that repeats what it hears, and the proxy before it. */
async function startEcho(t: Test, hearServer?: HearServer) {
  const echo = await startRawUpstream(t, (socket, soFar) => socket.write(soFar.slice(-1)))
  const port = Number(new URL(echo.url).port)
  const proxy = await startTcpProxy(t, { port, ...(hearServer && { hearServer }) })
  return { echo, proxy, connect: () => openRawClient(t, addressOf(proxy)) }
}

const addressOf = ({ port }: TcpProxy): string => `http://127.0.0.1:${port}`

/** Long enough for a byte that passes to be seen. */
const moment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100))

t.test('bytes and ends pass in both directions, however many', async (t) => {
  const bytes = Buffer.alloc(8_000_000, 'x')
  const server = createServer({ allowHalfOpen: true }, (socket) => socket.pipe(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const proxy = await startTcpProxy(t, server.address() as AddressInfo)
  const client = await openRawClient(t, addressOf(proxy))
  client.socket.end(bytes)
  t.equal((await client.closed()).length, bytes.length)
  await until(() => proxy.connections() === 0, 'the end')
})

t.test('frozen, old and new connections stay silent, and thawed, all bytes arrive', async (t) => {
  const { echo, proxy, connect } = await startEcho(t)
  const old = await connect()
  old.send('a')
  await old.until(/^a$/)
  proxy.freeze()
  old.send('b')
  const fresh = await connect()
  fresh.send('c')
  await moment()
  t.same(echo.received(), ['a'], 'the server hears nothing')
  echo.sockets()[0]?.write('!')
  await moment()
  t.same([old.text(), fresh.text()], ['a', ''], 'the clients hear nothing')
  t.notOk(old.socket.destroyed || fresh.socket.destroyed)
  proxy.thaw()
  await old.until(/^a!b$/)
  await fresh.until(/^c$/)
  for (const client of [old, fresh]) client.send('d')
  await Promise.all([old.until(/d$/), fresh.until(/d$/)])
})

t.test('frozen: not even the death of one side reaches the other', async (t) => {
  const { echo, proxy, connect } = await startEcho(t)
  const client = await connect()
  client.send('a')
  await client.until(/a/)
  proxy.freeze()
  let isClosed = false
  client.socket.on('close', () => {
    isClosed = true
  })
  echo.sockets()[0]?.resetAndDestroy()
  await moment()
  t.notOk(isClosed)
  proxy.thaw()
  await client.closed()
})

t.test('cut: both ends are reset at once, and new connections pass', async (t) => {
  const { echo, proxy, connect } = await startEcho(t)
  const client = await connect()
  client.send('a')
  await client.until(/a/)
  const errors = [client.socket, echo.sockets()[0] ?? new Socket()].map((socket) => once(socket, 'error'))
  proxy.cut()
  t.match(await Promise.all(errors), [[{ code: 'ECONNRESET' }], [{ code: 'ECONNRESET' }]])
  const next = await connect()
  next.send('b')
  await next.until(/b/)
})

t.test('refused, a new connection is reset and an old one goes on, until new ones are accepted again', async (t) => {
  const { proxy, connect } = await startEcho(t)
  const old = await connect()
  old.send('a')
  await old.until(/a/)
  proxy.refuse()
  await t.rejects(connectAndHear(proxy), { code: 'ECONNRESET' })
  old.send('b')
  await old.until(/ab/)
  proxy.accept()
  const next = await connect()
  next.send('c')
  await next.until(/c/)
})

t.test('a server that is not there is a reset', async (t) => {
  const proxy = await startTcpProxy(t, { port: 1 })
  await t.rejects(connectAndHear(proxy), { code: 'ECONNRESET' })
})

/** Rejects with the error that ends the connection, in its very first moment or later. */
async function connectAndHear({ port }: TcpProxy): Promise<unknown> {
  const socket = connect(port, '127.0.0.1')
  return once(socket.resume(), 'end')
}

t.test('the hook hears the server, and what it holds waits for its release, with all that follows', async (t) => {
  const links: TcpLink[] = []
  let heard = ''
  const { proxy, connect } = await startEcho(t, (bytes, link) => {
    heard += bytes.toString()
    if (!bytes.includes('h')) return 'pass'
    links.push(link)
    return 'hold'
  })
  const [client, other] = [await connect(), await connect()]
  for (const letter of 'ahbc') {
    client.send(letter)
    await until(() => heard.includes(letter), letter)
  }
  other.send('d')
  await other.until(/^d$/)
  await moment()
  t.equal(client.text(), 'a', 'held')
  links[0]?.release()
  await client.until(/^ahbc$/)
  t.equal(links[0]?.index, 0)
  t.equal(proxy.connections(), 2)
})

t.test('dropped bytes never arrive, but later ones do', async (t) => {
  let heard = ''
  const { connect } = await startEcho(t, (bytes) => {
    heard += bytes.toString()
    return bytes.includes('d') ? 'drop' : 'pass'
  })
  const client = await connect()
  for (const letter of 'adb') {
    client.send(letter)
    await until(() => heard.includes(letter), letter)
  }
  await client.until(/b$/)
  t.equal(client.text(), 'ab')
})
