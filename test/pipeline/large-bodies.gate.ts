import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { openRoute, until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { findMeasureLack, measurable, readSettledFigures } from '../support/process-figures.ts'
import { type Replica, startReplica } from '../support/replicas.ts'
import { watchHeld } from '../support/watch-held.ts'
import { type Checker, createChecker, readMessage, sendContent } from './large-content.ts'
import { connectSlowly, slowDown } from './slow-reader.ts'

const mebibyte = 1024 * 1024
/** Many times what may be held; a campaign sends more than 31 bits count. */
const largeBytes = (process.env.CAMPAIGN ? 2_049 : 512) * mebibyte
const smallBytes = 32 * mebibyte

/** Of a body under way, in the gateway. */
const heldLimitBytes = 8 * mebibyte

/** Of one that waits for its reader, in the system's own buffers above all. */
const waitingLimitBytes = 96 * mebibyte

/** Without a further byte. All go through three processes and six sockets; a busy machine takes its time. */
const patienceMs = 60_000

/** An upstream, and how far its newest download and its newest upload are. */
type Upstream = Readonly<{ url: string; sentBytes: () => number; uploaded: () => Checker }>

/** Sends as many bytes as a path names, and takes uploads; after every chunk it waits as long as it is told to. */
async function startUpstream(t: Test, pauseMs: () => number): Promise<Upstream> {
  let sentBytes = 0
  let uploaded = createChecker()
  const serve = (socket: Socket): void => {
    let uploadBytes = 0
    const onHead = (head: string): void => {
      const [, downloadBytes] = /^GET \/(\d+) /.exec(head) ?? []
      if (downloadBytes === undefined) {
        uploadBytes = Number(/^content-length: (\d+)/im.exec(head)?.[1])
        uploaded = createChecker()
        return
      }
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${downloadBytes}\r\nconnection: close\r\n\r\n`)
      sendContent(socket, Number(downloadBytes), (bytes) => {
        sentBytes = bytes
      })
    }
    const onBody = (bytes: Buffer): void => {
      if (uploadBytes === 0) return
      uploaded.take(bytes)
      if (uploaded.receivedBytes() < uploadBytes) return
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    }
    socket.on('error', () => {})
    socket.on('data', readMessage(onHead, onBody))
    slowDown(socket, pauseMs)
    t.teardown(() => socket.destroy())
  }
  const server = createServer(serve).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, sentBytes: () => sentBytes, uploaded: () => uploaded }
}

function openClient(t: Test, { public: origin }: Replica, hear: (bytes: Buffer) => void): Socket {
  const { hostname, port } = new URL(origin)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.on('data', hear)
  t.teardown(() => socket.destroy())
  return socket
}

const composeDownload = (bytes: number): string => `GET /${bytes} HTTP/1.1\r\nhost: a.example\r\n\r\n`
const composeUpload = (bytes: number): string =>
  `POST /upload HTTP/1.1\r\nhost: a.example\r\ncontent-length: ${bytes}\r\n\r\n`

/** How long the whole takes is for the machine to say; what stands still is at fault. */
async function untilOver(isOver: () => boolean, passedBytes: () => number, what: string): Promise<void> {
  while (!isOver()) {
    const seenBytes = passedBytes()
    await until(() => isOver() || passedBytes() > seenBytes, what, patienceMs)
  }
}

async function download(t: Test, replica: Replica, bytes: number): Promise<Checker> {
  const checker = createChecker()
  const onBody = readMessage(() => {}, checker.take)
  const client = openClient(t, replica, onBody)
  client.write(composeDownload(bytes))
  const isOver = (): boolean => checker.receivedBytes() >= bytes || client.destroyed
  await untilOver(isOver, checker.receivedBytes, 'the end of the download')
  return checker
}

/** Gives the head of the answer. */
async function upload(t: Test, replica: Replica, upstream: Upstream, bytes: number): Promise<string> {
  let answer = ''
  const client = openClient(t, replica, (chunk) => {
    answer += chunk.toString('latin1')
  })
  client.write(composeUpload(bytes))
  sendContent(client, bytes)
  const isOver = (): boolean => answer.includes('\r\n\r\n') || client.destroyed
  await untilOver(isOver, () => upstream.uploaded().receivedBytes(), 'the answer to the upload')
  return answer
}

/** A gateway that has done the same on a small scale, so that its code is compiled and its pools are filled. */
async function startPair(t: Test) {
  let pauseMs = 0
  const upstream = await startUpstream(t, () => pauseMs)
  const routes = [{ ...openRoute, limits: { bodyBytes: largeBytes } }]
  const settings = { log: { level: 'warn' } }
  const replica = await startReplica(
    t,
    { routes, upstreams: { platform: { url: upstream.url } }, settings },
    measurable,
  )
  t.match(await upload(t, replica, upstream, smallBytes), /^HTTP\/1\.1 200 /)
  t.equal((await download(t, replica, smallBytes)).receivedBytes(), smallBytes)
  const slowUpstreamDown = (ms: number): void => {
    pauseMs = ms
  }
  return { upstream, replica, slowUpstreamDown }
}

/** Watches the process from the moment it holds nothing. */
async function testGrowth(t: Test, replica: Replica, work: () => Promise<unknown>): Promise<void> {
  const { heapBytes, externalBytes } = await readSettledFigures(replica)
  const grown = (await watchHeld(replica, work)) - heapBytes - externalBytes
  t.comment(`held: ${Math.round(grown / 1024)} KiB more`)
  t.ok(grown < heldLimitBytes, `${grown} bytes`)
}

testUnlessLacking(t, `bodies of ${largeBytes / mebibyte} MiB`, testLarge, findMeasureLack())

async function testLarge(t: Test): Promise<void> {
  const { upstream, replica, slowUpstreamDown } = await startPair(t)

  t.test('an upload passes whole, and is not held', async (t) => {
    await testGrowth(t, replica, async () =>
      t.match(await upload(t, replica, upstream, largeBytes), /^HTTP\/1\.1 200 /),
    )
    t.equal(upstream.uploaded().receivedBytes(), largeBytes)
    t.ok(upstream.uploaded().isSame(), 'the bytes that were sent')
  })

  t.test('a download passes whole, and is not held', async (t) => {
    await testGrowth(t, replica, async () => {
      const downloaded = await download(t, replica, largeBytes)
      t.equal(downloaded.receivedBytes(), largeBytes)
      t.ok(downloaded.isSame(), 'the bytes that were sent')
    })
  })

  t.test('a slow reader, upstream or client, holds the other side up', async (t) => {
    slowUpstreamDown(100)
    await testGrowth(t, replica, async () => {
      let uploadedBytes = 0
      const uploading = openClient(t, replica, () => {})
      uploading.write(composeUpload(largeBytes))
      sendContent(uploading, largeBytes, (bytes) => {
        uploadedBytes = bytes
      })
      const checker = createChecker()
      const onBody = readMessage(() => {}, checker.take)
      const downloading = connectSlowly(t, replica.public, { bytes: 65_536, everyMs: 100 }, onBody)
      downloading.write(composeDownload(largeBytes))
      await Promise.all([
        testHeldUp(t, () => uploadedBytes, upstream.uploaded),
        testHeldUp(t, upstream.sentBytes, () => checker),
      ])
      uploading.destroy()
      downloading.destroy()
    })
  })
}

/** The bytes between the two sides stay far below the whole body while the reader goes on. */
async function testHeldUp(t: Test, sentBytes: () => number, reading: () => Checker): Promise<void> {
  const onTheWay = (): number => sentBytes() - reading().receivedBytes()
  const isHeldUp = async (): Promise<boolean> => {
    const before = onTheWay()
    await sleep(1_000)
    return before > 0 && onTheWay() < before + mebibyte
  }
  await until(isHeldUp, 'the end of what is piled up', patienceMs)
  const receivedBytes = reading().receivedBytes()
  await until(() => reading().receivedBytes() > receivedBytes, 'that the reader goes on', patienceMs)
  t.comment(`${Math.round(onTheWay() / mebibyte)} MiB are on the way`)
  t.ok(reading().isSame(), 'with the bytes that were sent')
  t.ok(onTheWay() < waitingLimitBytes, `${onTheWay()} bytes`)
}
