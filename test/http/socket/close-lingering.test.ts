import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { closeLingering } from '../../../gateway/http/socket/close-lingering.ts'
import { startFairClock } from '../../support/fair-clock.ts'

/** Two ends of one connection; neither ends its side by itself. */
async function openPair(t: Test): Promise<Readonly<{ ours: Socket; peer: Socket }>> {
  const server = createServer({ allowHalfOpen: true })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const peer = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  const [ours] = (await once(server, 'connection')) as [Socket]
  server.close()
  t.teardown(() => {
    ours.destroy()
    peer.destroy()
  })
  return { ours, peer }
}

t.test('a peer that takes its time gets every byte', async (t) => {
  const size = 32 * 1024 * 1024
  const { ours, peer } = await openPair(t)
  ours.write(Buffer.alloc(size))
  closeLingering(ours)
  // Longer than a peer may linger once it has everything.
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  t.notOk(ours.destroyed)
  let receivedBytes = 0
  peer.on('data', (chunk) => {
    receivedBytes += chunk.length
  })
  await once(peer, 'end')
  t.equal(receivedBytes, size)
})

t.test('the connection closes even if its peer never does', async (t) => {
  const { ours, peer } = await openPair(t)
  peer.resume()
  closeLingering(ours)
  await once(ours, 'close')
  t.notOk(peer.writableEnded)
})

t.test('the connection closes at once after its peer’s end, even with unread bytes', async (t) => {
  const { ours, peer } = await openPair(t)
  peer.write(Buffer.alloc(1024 * 1024))
  peer.resume()
  peer.once('end', () => peer.end())
  const passedMs = startFairClock(t)
  closeLingering(ours)
  await once(ours, 'close')
  t.ok(passedMs() < 900, `${passedMs()} ms`)
})
