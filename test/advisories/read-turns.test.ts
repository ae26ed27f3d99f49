import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createEngine } from '../../gateway/http/create-engine.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { FairReader } from '../../gateway/http/socket/fair-reader.ts'
import { type Owner, readTurns } from '../../gateway/http/socket/read-turns.ts'
import { listenerOptions } from '../support/listener-options.ts'

/**
 * A budget of bytes is not a budget of time. Blank lines of an event stream took seventy times as long as text, and one
 * such stream held up the requests of all tenants.
 */
const turn = () => new Promise((resolve) => setImmediate(resolve))

const large = 64 * 1024

let owners = 0
const newOwner = (): number => {
  owners += 1
  return owners
}

function makeGate() {
  let isOpen = true
  const set = (wanted: boolean) => (): void => {
    isOpen = wanted
  }
  const [open, close] = [set(true), set(false)]
  return { isOpen: () => isOpen, open, close, hold: close, letOut: close, detach: close }
}

function makeSocket() {
  const gate = makeGate()
  return { gate, reader: new FairReader(gate) }
}

/** Turns until the gate opens. */
async function turnsUntilOpen(gate: Readonly<{ isOpen: () => boolean }>): Promise<number> {
  for (let turns = 1; turns < 1_000; turns += 1) {
    await turn()
    if (gate.isOpen()) return turns
  }
  return Number.POSITIVE_INFINITY
}

t.test('a read that took ten slices is followed by as many turns without a read of its owner', async (t) => {
  const [greedy, sibling, other] = [makeSocket(), makeSocket(), makeSocket()]
  const owner = newOwner()
  greedy.reader.count(owner, large, 5)
  sibling.reader.count(owner, large, 0)
  other.reader.count(newOwner(), large, 0)
  t.notOk(greedy.gate.isOpen())
  t.notOk(sibling.gate.isOpen(), 'another connection of the same owner waits, too')
  const turns = await turnsUntilOpen(greedy.gate)
  t.ok(turns >= 9, `${turns} turns`)
  t.ok(turns < 50, 'it goes on')
})

t.test('another owner reads in the next turn, however many connections the greedy one has', async (t) => {
  const owner = newOwner()
  for (let count = 0; count < 1_000; count += 1) makeSocket().reader.count(owner, large, 1)
  const other = makeSocket()
  other.reader.count(newOwner(), large, 0)
  const turns = other.gate.isOpen() ? 0 : await turnsUntilOpen(other.gate)
  t.ok(turns <= 1, `${turns} turns`)
})

t.test('a small read that takes long counts like a large one, and a small quick one does not count', async (t) => {
  const { gate, reader } = makeSocket()
  reader.count(newOwner(), 100, 0.1)
  t.ok(gate.isOpen())
  reader.count(newOwner(), 100, 3)
  t.notOk(gate.isOpen())
})

t.test('the answer that ends on a connection is charged, and leaves its gate open', async (t) => {
  const { gate, reader } = makeSocket()
  const owner = newOwner()
  reader.keepOpen()
  reader.count(owner, large, 5)
  t.ok(gate.isOpen())
  const later = makeSocket()
  later.reader.count(owner, large, 0)
  t.notOk(later.gate.isOpen())
})

t.test('bytes that take long are read in smaller pieces', (t) => {
  const { reader } = makeSocket()
  t.equal(reader.limit('large'), 'large')
  reader.count(newOwner(), large, 25)
  t.equal(reader.limit('large'), 'sparing')
  reader.count(newOwner(), 4 * 1024, 0.1)
  t.equal(reader.limit('large'), 'small')
  reader.count(newOwner(), large, 0.1)
  t.equal(reader.limit('large'), 'large')
  t.end()
})

t.test('a pause of the process within a read keeps its owner out for a short time', async (t) => {
  const { gate, reader } = makeSocket()
  reader.count(newOwner(), large, 10_000)
  const turns = await turnsUntilOpen(gate)
  t.ok(turns <= 60, `${turns} turns`)
})

/** Keeps an owner in debt for so long, as a crowd of its own connections does. */
function keepInDebt(owner: Owner, ms: number): void {
  const untilMs = performance.now() + ms
  const charge = (): void => {
    readTurns.charge(owner, 0, 1_000, true)
    if (performance.now() < untilMs) setImmediate(charge)
  }
  charge()
}

const engine = createEngine()
t.teardown(() => engine.close())

const idleMs = 200
const bodyBytes = 1024 * 1024

async function listen(t: Test, handle: (exchange: Exchange) => Promise<void>): Promise<number> {
  const listener = await engine.listen({ ...listenerOptions, bodyIdleTimeoutMs: idleMs }, (exchange) => {
    handle(exchange).catch((error: unknown) => {
      if (exchange.hasStarted) exchange.destroy()
      else exchange.respond({ status: 408, headers: [] }, String(error))
    })
  })
  t.teardown(() => listener.close())
  return listener.address.port
}

async function ask(port: number, request: string | Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (bytes) => {
    text += bytes.toString('latin1')
  })
  socket.on('error', () => undefined)
  socket.write(request)
  await once(socket, 'close')
  return text
}

t.test('an upload whose bytes the gateway has not read yet is not a slow one', async (t) => {
  const port = await listen(t, async (exchange) => {
    keepInDebt(exchange.account.owner, 5 * idleMs)
    const body = await exchange.body.read(bodyBytes)
    exchange.respond({ status: 200, headers: [] }, `${body.length}`)
  })
  const head = `POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: ${bodyBytes}\r\n\r\n`
  const startedMs = performance.now()
  t.match(await ask(port, Buffer.concat([Buffer.from(head), Buffer.alloc(bodyBytes)])), /^HTTP\/1\.1 200 .*1048576$/s)
  t.ok(performance.now() - startedMs > 4 * idleMs, 'its reads were held')
})

t.test('an answer whose bytes the gateway has not read yet is not a silent one', async (t) => {
  const upstream = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () =>
      socket.write(
        Buffer.concat([
          Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${bodyBytes}\r\n\r\n`),
          Buffer.alloc(bodyBytes, 'x'),
        ]),
      ),
    )
  }).listen(0, '127.0.0.1')
  t.teardown(() => upstream.close())
  await once(upstream, 'listening')
  const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}` // of a TCP listener
  const port = await listen(t, async (exchange) => {
    const answer = await engine.send({
      ...{ origin, method: 'GET', path: '/', headers: [], body: undefined, account: exchange.account },
      ...{ asksForWebSocket: false, bodyLimitBytes: 0, isFreshConnection: false, onCancellable: () => undefined },
      timeouts: { connectMs: 1_000, firstByteMs: 1_000, idleMs },
    })
    if (!('pipe' in answer)) throw new Error('not a response')
    keepInDebt(exchange.account.owner, 5 * idleMs)
    const writer = exchange.startResponse({ status: 200, headers: ['content-length', `${bodyBytes}`] })
    writer.onDrain(() => answer.resume())
    answer.pipe({ data: (chunk) => writer.write(chunk), end: () => writer.end(), fail: () => exchange.destroy() })
  })
  const startedMs = performance.now()
  const text = await ask(port, 'GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')
  t.equal(text.split('x').length - 1, bodyBytes)
  t.ok(performance.now() - startedMs > 4 * idleMs, 'its reads were held')
})

t.test('the next request of a connection does not wait for the turn of the organization before it', async (t) => {
  let owner: Owner = ''
  const port = await listen(t, async (exchange) => {
    if (exchange.method === 'POST') exchange.account.forOrganization(1)
    owner = exchange.account.owner
    await exchange.body.read(bodyBytes)
    exchange.respond({ status: 200, headers: [] }, exchange.method)
  })
  // A proxy's connection, which several tenants share.
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  const [first, last] = [Buffer.alloc(1024), Buffer.alloc(20 * 1024)]
  socket.write(`POST / HTTP/1.1\r\nHost: h\r\nContent-Length: ${first.length + last.length}\r\n\r\n`)
  socket.write(first)
  await setTimeout(50)
  keepInDebt(owner, 1_000)
  socket.write(last)
  const [posted] = await once(socket, 'data')
  t.match(String(posted), /POST$/)
  for (const body of ['', Buffer.alloc(20 * 1024)]) {
    const startedMs = performance.now()
    socket.write(
      Buffer.concat([
        Buffer.from(`PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n`),
        Buffer.from(body),
      ]),
    )
    const [got] = await once(socket, 'data')
    t.match(String(got), /PUT$/)
    const ms = performance.now() - startedMs
    t.ok(ms < 300, `${Math.round(ms)} ms`)
  }
})

t.test('a client that is silent in its turn is a slow one', async (t) => {
  const port = await listen(t, async (exchange) => {
    await exchange.body.read(bodyBytes)
  })
  t.match(
    await ask(port, `POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 9\r\n\r\nx`),
    /^HTTP\/1\.1 408 /,
  )
})
