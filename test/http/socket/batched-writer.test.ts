import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { freeAccount } from '../../../gateway/http/memory-budget.ts'
import { BatchedWriter, coalesceLimit } from '../../../gateway/http/socket/batched-writer.ts'
import { PooledCopy } from '../../../gateway/http/socket/pooled-copy.ts'
import { until } from '../../support/gateway.ts'

/** Outlets of connections, what is written to each socket, and what its other side has heard. */
async function openWriters(t: Test, count: number) {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // TCP
  const open = async () => {
    const socket = connect(port, '127.0.0.1')
    const [[other]] = (await Promise.all([once(server, 'connection'), once(socket, 'connect')])) as [[Socket], unknown]
    for (const side of [socket, other]) t.teardown(() => side.destroy())
    const pair = {
      socket,
      other,
      writer: new BatchedWriter(socket, freeAccount),
      writes: [] as (string | Buffer)[],
      heard: '',
    }
    const write = socket.write.bind(socket) as (...values: unknown[]) => boolean
    socket.write = (bytes: string | Buffer, ...rest: unknown[]) => {
      pair.writes.push(bytes)
      return write(bytes, ...rest)
    }
    other.on('error', () => {})
    other.on('data', (bytes: Buffer) => {
      pair.heard += bytes.toString('latin1')
    })
    return pair
  }
  const pairs: Awaited<ReturnType<typeof open>>[] = []
  while (pairs.length < count) pairs.push(await open())
  return pairs
}

async function openWriter(t: Test) {
  const [pair] = await openWriters(t, 1)
  if (!pair) throw new Error('no connection')
  return pair
}

t.test('text written within a turn leaves at its end, in one write', async (t) => {
  const pair = await openWriter(t)
  const { writer, writes } = pair
  for (const text of ['a head, ', 'a body, ', '\xff']) t.equal(writer.write(text), true)
  t.same(writes, [])
  t.equal(writer.hasWritten, false)
  await turn()
  t.same(writes, ['a head, a body, \xff'])
  t.equal(writer.hasWritten, true)
  await until(() => pair.heard === 'a head, a body, \xff', 'each of its bytes')
})

t.test('bytes leave at once, behind the text before them', async (t) => {
  const pair = await openWriter(t)
  const { writer, writes } = pair
  writer.write('size ')
  writer.write(Buffer.from('bytes'))
  t.same(writes.map(String), ['size ', 'bytes'])
  writer.write(Buffer.from(' more'))
  writer.write(' end')
  t.same(writes.map(String), ['size ', 'bytes', ' more'])
  await until(() => pair.heard === 'size bytes more end', 'all of it, in its order')
})

t.test('each callback is called when its own text has left', async (t) => {
  const { writer, writes } = await openWriter(t)
  const left: string[] = []
  writer.write('first')
  writer.write(' end', () => left.push('first'))
  writer.write('second', () => left.push('second'))
  t.same(writes, ['first end'], 'the first cannot wait any more')
  t.same(left, [])
  await until(() => left.length === 2, 'both')
  t.same(left, ['first', 'second'])
  t.same(writes, ['first end', 'second'])
})

t.test('no more text is joined than node writes without a copy', async (t) => {
  const { writer, writes } = await openWriter(t)
  const half = 'x'.repeat(coalesceLimit / 2)
  writer.write(half)
  writer.write(half)
  t.same(writes, [])
  writer.write('y')
  t.same(writes, [half + half])
  await turn()
  t.same(writes, [half + half, 'y'])
})

t.test('the first writers of a crowd do not wait for the last', async (t) => {
  const pairs = await openWriters(t, 20)
  for (const { writer } of pairs) writer.write('text')
  const written = (): number => pairs.filter(({ writes }) => writes.length === 1).length
  t.equal(written(), 16)
  await turn()
  t.equal(written(), 20)
})

t.test('waiting text is written before a socket is ended', async (t) => {
  const pair = await openWriter(t)
  const { writer, socket } = pair
  writer.write('the last words')
  writer.flush()
  socket.end()
  await once(pair.other, 'end')
  t.equal(pair.heard, 'the last words')
})

t.test('waiting text never leaves whole from a broken socket', async (t) => {
  const pair = await openWriter(t)
  const { writer, socket } = pair
  const told: unknown[] = []
  writer.write('a whole answer', () => told.push('it has left'))
  writer.flushTruncated()
  socket.destroy()
  await once(pair.other, 'close')
  t.equal(pair.heard, 'a whole answe')
  t.same(told, [])
})

t.test('a socket that went away meanwhile is left alone, and the others are not', async (t) => {
  const [gone, here] = await openWriters(t, 2)
  gone?.writer.write('lost with its socket')
  here?.writer.write('heard')
  gone?.socket.destroy()
  await until(() => here?.heard === 'heard', 'the other one')
  t.same(gone?.writes, [])
})

t.test('a peer that reads nothing shows at the next write, until it reads again', async (t) => {
  const { writer, socket, other } = await openWriter(t)
  other.pause()
  const text = 'x'.repeat(coalesceLimit)
  for (let count = 0; !writer.isCongested(); count += 1) {
    if (count > 10_000) throw new Error('never congested')
    writer.write(text)
    await turn()
  }
  t.equal(writer.write('more'), false)
  const drained = once(socket, 'drain')
  other.resume()
  await drained
  t.equal(writer.write('more'), true)
})

// Bytes on their way when a connection breaks must not become another's before they have left.
for (const breakOff of ['destroy', 'resetAndDestroy', 'end'] as const)
  t.test(`borrowed bytes arrive as they were, also where their socket breaks by ${breakOff}`, async (t) => {
    const lentBytes = 60 * 1024
    for (let time = 0; time < 5; time += 1) {
      const pair = await openWriter(t)
      pair.other.pause()
      for (let count = 0; count < 200; count += 1) pair.writer.writeBorrowed(Buffer.alloc(lentBytes, 'a'))
      t.ok(pair.socket.writableLength > 0, 'the other side has not taken all of it')
      pair.socket[breakOff]()
      pair.other.resume()
      while (!pair.other.closed && !pair.other.readableEnded) {
        for (let count = 0; count < 100; count += 1) new PooledCopy(Buffer.alloc(lentBytes, 'b')).recycle()
        await turn()
      }
      t.notOk(pair.heard.includes('b'))
    }
  })
