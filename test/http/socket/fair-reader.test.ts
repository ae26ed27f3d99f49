import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { FairReader } from '../../../gateway/http/socket/fair-reader.ts'
import { gateOf } from '../../../gateway/http/socket/read-gate.ts'
import { until } from '../../support/gateway.ts'

const mebibyte = 1024 * 1024
const owner = 'one'

/** Connections whose other ends have said so much already that all of it can be read at once. */
async function openFull(t: Test, count: number, bytes: number): Promise<readonly Socket[]> {
  const content = Buffer.alloc(bytes, 'x')
  const server = createServer((socket) => socket.on('error', () => undefined).end(content)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1'))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  await new Promise((resolve) => setTimeout(resolve, 100))
  return sockets
}

t.test('a peer that sends much is read in parts, one in each turn', async (t) => {
  const sockets = await openFull(t, 8, 2 * mebibyte)
  let whole = 0
  let thisTurn = 0
  const turns: number[] = []
  const look = (): void => {
    if (thisTurn > 0) turns.push(thisTurn)
    thisTurn = 0
    if (whole < sockets.length * 2 * mebibyte) setImmediate(look)
  }
  setImmediate(look)
  for (const socket of sockets) {
    const reading = new FairReader(gateOf(socket, false))
    socket.on('data', (chunk) => {
      whole += chunk.length
      thisTurn += chunk.length
      reading.count(owner, chunk.length, 0)
    })
  }
  await until(() => whole === sockets.length * 2 * mebibyte, 'all that was said')
  t.ok(Math.max(...turns) <= 3 * mebibyte, `${Math.max(...turns)} bytes in one turn of ${turns.length}`)
})

t.test('a socket that was given away is not held up', async (t) => {
  const sockets = await openFull(t, 8, 2 * mebibyte)
  let whole = 0
  for (const socket of sockets) {
    const reading = new FairReader(gateOf(socket, false))
    socket.once('data', () => {
      reading.detach()
      socket.resume()
    })
    socket.on('data', (chunk) => {
      whole += chunk.length
      reading.count(owner, chunk.length, 0)
    })
  }
  await until(() => whole === sockets.length * 2 * mebibyte, 'all that was said')
})

t.test('a throttled socket is not read on while its bytes have no receiver', async (t) => {
  const [socket] = await openFull(t, 1, 2 * mebibyte)
  if (!socket) throw new Error('no connection')
  const reading = new FairReader(gateOf(socket, false))
  let whole = 0
  let isOpen = true
  socket.on('data', (chunk) => {
    whole += chunk.length
    if (!isOpen) t.fail('read on')
    reading.count(owner, chunk.length, 0)
    if (whole < mebibyte || whole >= mebibyte + 64 * 1024) return
    isOpen = false
    reading.pause()
    setTimeout(() => {
      isOpen = true
      reading.resume()
    }, 50)
  })
  await until(() => whole === 2 * mebibyte, 'the rest')
})
