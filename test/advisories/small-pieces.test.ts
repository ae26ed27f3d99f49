import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import t from 'tap'
import { type ConnectionAccount, MemoryBudget } from '../../gateway/http/memory-budget.ts'
import { ParseLimits } from '../../gateway/http/parser/limits.ts'
import { PipelinedBytes } from '../../gateway/http/server/pipelined-bytes.ts'
import { BatchedWriter } from '../../gateway/http/socket/batched-writer.ts'
import { HeldChunks } from '../../gateway/http/socket/held-chunks.ts'
import { pipeBoth } from '../../gateway/http/tunnel.ts'
import { openFakeStream } from '../support/fake-stream.ts'
import { until } from '../support/gateway.ts'

function openAccount(): ConnectionAccount {
  const relieve = (): void => {
    throw new Error('the budget is large enough')
  }
  return new MemoryBudget(1_000_000).open('192.0.2.1', { relieve })
}

const byte = Buffer.from('x')

const mostPieces = 256

const leastPieceBytes = 100

// Apache CVE-2019-9517 is the class. A byte in a packet of its own takes over a hundred bytes of memory. The budget
// counted 12 KiB for 12,288 of them that were read ahead.
t.test('pipelined bytes that come one by one count with what keeps them, and few are read ahead', async (t) => {
  const account = openAccount()
  const ahead = new PipelinedBytes(account)
  let pieces = 0
  for (; !ahead.isFull; pieces++) ahead.add(byte)
  t.ok(pieces <= mostPieces, `${pieces} pieces`)
  t.ok(account.heldBytes > pieces * leastPieceBytes, `${account.heldBytes} bytes`)
  t.equal(ahead.take().length, pieces)
  t.equal(account.heldBytes, 0)
})

t.test('bytes of a waiting body that come one by one count with what keeps them, and few are held', async (t) => {
  const account = openAccount()
  const chunks = new HeldChunks(account, 64 * 1_024)
  let pieces = 0
  for (; !chunks.isFull; pieces++) chunks.push(byte)
  t.ok(pieces <= 2 * mostPieces, `${pieces} pieces`)
  const { heldBytes } = account
  t.ok(heldBytes > pieces * leastPieceBytes, `${heldBytes} bytes`)
  chunks.shift()
  t.equal(account.heldBytes, (heldBytes / pieces) * (pieces - 1))
  t.equal(chunks.takeAll().length, pieces - 1)
  t.equal(account.heldBytes, 0)
})

t.test('bytes of a head that come one by one count with what keeps them', async (t) => {
  const limits = new ParseLimits(64 * 1_024)
  limits.beginHead()
  for (let reads = 0; reads < 1_000; reads++) limits.endBytes(1, true)
  t.ok(limits.headBytes > 30_000, `${limits.headBytes} bytes`)
  limits.beginHead()
  t.equal(limits.headBytes, 0)
})

t.test('comments that wait for the first event of a stream count with what keeps them', async (t) => {
  const fake = openFakeStream({ eventLimitBytes: 10_000 })
  let comments = 0
  for (; fake.seen.refusal === undefined && comments < 3_000; comments++) fake.data(':\n\n')
  t.match(fake.seen.refusal, { code: 'event_too_large' })
  t.ok(comments < 10_000 / leastPieceBytes, `${comments} comments`)
})

/** A socket that takes bytes and passes none on until it hears. */
class DeafSocket extends Duplex {
  #isDeaf = true
  #goOn: (() => void) | undefined
  override _read(): void {}
  override _write(_bytes: Buffer, _encoding: string, taken: () => void): void {
    if (this.#isDeaf) this.#goOn = taken
    else taken()
  }
  hear(): void {
    this.#isDeaf = false
    this.#goOn?.()
  }
  setTimeout(): void {}
}

t.test('few pieces are written to a peer that takes nothing, and more once they have left', async (t) => {
  const account = openAccount()
  const socket = new DeafSocket()
  const writer = new BatchedWriter(socket as unknown as Socket, account)
  let pieces = 0
  do {
    pieces += 1
    writer.write('x')
    writer.flush()
  } while (!writer.isCongested() && pieces < 10_000)
  t.ok(pieces <= mostPieces, `${pieces} pieces`)
  writer.count()
  t.ok(account.heldBytes > pieces * leastPieceBytes, `${account.heldBytes} bytes`)
  let isDrained = false
  socket.once('drain', () => {
    isDrained = true
  })
  socket.hear()
  await until(() => isDrained, 'the drain')
  t.notOk(writer.isCongested())
  socket.destroy()
})

t.test('few pieces pass through a tunnel to a peer that takes nothing, and more once they have left', async (t) => {
  const account = openAccount()
  const [client, upstream] = [new DeafSocket(), new DeafSocket()]
  const events = new EventEmitter()
  let isOpen = false
  const setOpen = (wanted: boolean) => (): void => {
    isOpen = wanted
  }
  const nothing = (): void => undefined
  const idle = { isOpen: () => true, open: nothing, close: nothing, hold: nothing, letOut: nothing, detach: nothing }
  pipeBoth(
    {
      socket: client as unknown as Socket,
      gate: { ...idle, open: setOpen(true), close: setOpen(false) },
      listen: (take) => void events.on('bytes', take),
    },
    { socket: upstream as unknown as Socket, gate: idle, listen: () => undefined },
    Buffer.alloc(0),
    1_000,
    account,
  )
  t.ok(isOpen)
  let pieces = 0
  for (; isOpen && pieces < 10_000; pieces++) events.emit('bytes', byte)
  t.ok(pieces <= mostPieces, `${pieces} pieces`)
  t.ok(account.heldBytes > pieces * leastPieceBytes, `${account.heldBytes} bytes`)
  upstream.hear()
  await until(() => isOpen, 'the drain')
  for (const socket of [client, upstream]) socket.destroy()
})
