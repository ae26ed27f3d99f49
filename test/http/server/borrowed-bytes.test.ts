// Reads use memory that all connections share: the bytes of one must never become another's.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createEngine } from '../../../gateway/http/create-engine.ts'
import type { Exchange } from '../../../gateway/http/exchange.ts'
import { listenerOptions } from '../../support/listener-options.ts'

/** None of them is a digit of a chunk's size. */
const letters = [...'GHIJKLMN']

/** The size of a body. The system's buffers take four mebibytes from one side, however slow the other one is. */
const size = 8 * 1024 * 1024 + 4_321
const last = 'Z'

/** A proxy without rules, which waits a while with what has arrived: for the upstream, and then for the client. */
async function startProxy(t: Test, upstream: string, waitMs: number): Promise<string> {
  const engine = createEngine()
  const pass = async (exchange: Exchange): Promise<void> => {
    await sleep(waitMs)
    const { method, target, body } = exchange
    const answer = await engine.send({ ...request, origin: upstream, method, path: target, body })
    if ('connection' in answer) throw new Error('another protocol was not asked for')
    await sleep(waitMs)
    const writer = exchange.startResponse({ status: answer.status, headers: answer.headers })
    writer.onDrain(answer.resume)
    answer.pipe({
      data: (chunk) => writer.write(chunk),
      end: () => writer.end(),
      fail: () => exchange.destroy(),
    })
  }
  const listener = await engine.listen(listenerOptions, (exchange) => {
    pass(exchange).catch((error: unknown) => {
      t.fail(String(error))
      exchange.destroy()
    })
  })
  t.teardown(async () => {
    const closed = listener.close()
    listener.destroy()
    await Promise.all([closed, engine.close()])
  })
  return `http://127.0.0.1:${listener.address.port}`
}

const request = {
  headers: [],
  asksForWebSocket: false,
  bodyLimitBytes: 2 * size,
  timeouts: { connectMs: 5_000, firstByteMs: 20_000, idleMs: 20_000 },
  isFreshConnection: false,
  onCancellable: () => undefined,
}

/** A server without an HTTP library: it sees the bytes of the network. */
async function startUpstream(t: Test, serve: (socket: Socket) => unknown): Promise<string> {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    serve(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function open(t: Test, origin: string): Promise<Socket> {
  const socket = connect(Number(new URL(origin).port), '127.0.0.1')
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** Says a body in pieces of changing sizes, each as soon as the other side has taken the one before. */
async function say(socket: Socket, letter: string, isChunked: boolean): Promise<void> {
  const write = async (bytes: string): Promise<void> => {
    const isTaken = socket.write(isChunked ? `${bytes.length.toString(16)}\r\n${bytes}\r\n` : bytes, 'latin1')
    if (!isTaken) await once(socket, 'drain')
  }
  let left = size
  for (let turn = letters.indexOf(letter); left > 0; turn += 1) {
    const length = Math.min(left, [1, 700, 5_000, 16_384, 20_000, 40_000, 65_000, 300_000][turn % 8] ?? 1)
    await write(letter.repeat(length))
    left -= length
  }
  await write(last)
  if (isChunked) socket.write('0\r\n\r\n')
}

/** Hears a message to its end, in no hurry; gives its content. */
async function hear(socket: Socket, pauseMs: number): Promise<string> {
  const heard: Buffer[] = []
  for await (const bytes of socket.iterator({ destroyOnReturn: false })) {
    heard.push(bytes)
    if ((bytes as Buffer).includes(last)) break
    if (pauseMs > 0) await sleep(pauseMs)
  }
  const text = Buffer.concat(heard).toString('latin1')
  return text.slice(text.indexOf('\r\n\r\n')).replaceAll(/[\r\n0-9a-f]/g, '')
}

/** The composition of a body, such as `G 8392929`: a difference of megabytes would be unreadable. */
function describe(content: string): string {
  const letter = content.charAt(0)
  if (content === letter.repeat(size) + last) return whole(letter)
  const counts = new Map<string, number>()
  for (const one of content) counts.set(one, (counts.get(one) ?? 0) + 1)
  return [...counts].map(([one, count]) => `${one} ${count}`).join(', ')
}

const whole = (letter: string): string => `all of ${letter}`

/** Half of them take their time. */
const pauseOf = (letter: string): number => (letters.indexOf(letter) % 2) * 5

for (const isChunked of [false, true])
  for (const waitMs of [0, 40]) {
    const how = `${isChunked ? 'in chunks' : 'of a known length'}${waitMs > 0 ? ', and held for a while' : ''}`

    t.test(`simultaneous answers of upstreams stay apart, however slowly it is taken: ${how}`, async (t) => {
      const upstream = await startUpstream(t, (socket) =>
        socket.on('data', (head: Buffer) => {
          const letter = /^GET \/(\w)/.exec(head.toString('latin1'))?.[1] ?? ''
          const framing = isChunked ? 'transfer-encoding: chunked' : `content-length: ${size + 1}`
          socket.write(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n`)
          say(socket, letter, isChunked).catch(() => {})
        }),
      )
      const origin = await startProxy(t, upstream, waitMs)
      const answers = letters.map(async (letter) => {
        const client = await open(t, origin)
        client.write(`GET /${letter} HTTP/1.1\r\nHost: h\r\n\r\n`)
        return describe(await hear(client, pauseOf(letter)))
      })
      t.same(await Promise.all(answers), letters.map(whole))
    })

    t.test(`simultaneous uploads of clients stay apart, however slowly it is taken: ${how}`, async (t) => {
      const received = new Map<string, string>()
      const upstream = await startUpstream(t, async (socket) => {
        const content = await hear(socket, pauseOf(letters[received.size] ?? ''))
        received.set(content.charAt(0), describe(content))
        socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok')
      })
      const origin = await startProxy(t, upstream, waitMs)
      const uploads = letters.map(async (letter) => {
        const client = await open(t, origin)
        const framing = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${size + 1}`
        client.write(`POST /x HTTP/1.1\r\nHost: h\r\n${framing}\r\n\r\n`)
        const answer = once(client, 'data')
        await say(client, letter, isChunked)
        t.match(String(await answer), /^HTTP\/1\.1 200/)
      })
      await Promise.all(uploads)
      t.same(
        letters.map((letter) => received.get(letter)),
        letters.map(whole),
      )
    })
  }
