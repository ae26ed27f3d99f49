import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { SharedReadSocket } from '../../../gateway/http/socket/shared-read-socket.ts'
import { until } from '../../support/gateway.ts'

/** A server like the engine's, and a client on it. */
async function startPair(t: Test) {
  const sockets: SharedReadSocket[] = []
  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (socket) =>
    sockets.push(new SharedReadSocket(socket, { chooseSize: () => 'large' })),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // TCP
  const open = async (): Promise<Readonly<{ client: Socket; shared: SharedReadSocket }>> => {
    const client = connect(port, '127.0.0.1')
    t.teardown(() => client.destroy())
    const count = sockets.length
    await until(() => sockets.length > count, 'the connection')
    const shared = sockets[count] as SharedReadSocket // just now
    t.teardown(() => shared.socket.destroy())
    return { client, shared }
  }
  return { server, open }
}

t.test('connections are read into one buffer, which the next read takes again', async (t) => {
  const { open } = await startPair(t)
  const heard: Buffer[] = []
  const copies: string[] = []
  for (const word of ['first', 'other']) {
    const { client, shared } = await open()
    t.equal(shared.ownsBytes, false)
    shared.listen((bytes) => {
      heard.push(bytes)
      copies.push(bytes.toString())
    })
    shared.socket.resume()
    client.write(word)
    await until(() => copies.includes(word), word)
  }
  t.same(copies, ['first', 'other'])
  t.equal(heard[0]?.buffer, heard[1]?.buffer)
  t.equal(heard[0]?.toString(), 'other', 'so that what is kept must be copied')
})

t.test('a connection that was left is a stream of its own, which waits for its reader', async (t) => {
  const { open } = await startPair(t)
  const { client, shared } = await open()
  const { socket } = shared
  shared.listen(() => t.fail('the listener was removed'))
  shared.detach()
  const total = 32 * 1024 * 1024
  client.end(Buffer.alloc(total, 'x'))
  socket.once('readable', () => {})
  await new Promise((resolve) => setTimeout(resolve, 200))
  t.ok(socket.bytesRead < total / 4, `${socket.bytesRead} bytes were read without a listener`)
  let receivedBytes = 0
  for await (const chunk of socket) {
    t.ok(Buffer.isBuffer(chunk) && chunk.every((byte) => byte === 120) === true)
    receivedBytes += chunk.length
  }
  t.equal(receivedBytes, total)
})

t.test('the server counts a connection until it closes, and waits for it', async (t) => {
  const { server, open } = await startPair(t)
  const { client, shared } = await open()
  const count = () => new Promise((resolve) => server.getConnections((_error, count) => resolve(count)))
  t.equal(await count(), 1)
  let isClosed = false
  server.close(() => {
    isClosed = true
  })
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(isClosed, false)
  t.equal(shared.socket.remotePort, client.localPort)
  shared.socket.destroy()
  await until(() => isClosed, 'the close')
  t.equal(await count(), 0)
})
