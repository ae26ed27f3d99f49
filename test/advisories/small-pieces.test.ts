import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import t from 'tap'
import { mostPieces, pieceBytes } from '../../gateway/http/exchange.ts'
import { type ConnectionAccount, MemoryBudget } from '../../gateway/http/memory-budget.ts'
import { ParseLimits } from '../../gateway/http/parser/limits.ts'
import { PipelinedBytes } from '../../gateway/http/server/pipelined-bytes.ts'
import { BatchedWriter } from '../../gateway/http/socket/batched-writer.ts'
import { HeldChunks } from '../../gateway/http/socket/held-chunks.ts'
import { pipeBoth } from '../../gateway/http/tunnel.ts'

function openAccount(): ConnectionAccount {
  const relieve = (): void => {
    throw new Error('the budget is large enough')
  }
  return new MemoryBudget(1_000_000).open('192.0.2.1', { relieve })
}

const byte = Buffer.from('x')

// Apache CVE-2019-9517 is the class. A byte in a packet of its own takes over a hundred bytes of memory. The budget
// counted 12 KiB for 12,288 of them that were read ahead.
t.test('bytes that come one by one count with what keeps them, and fewer of them are read ahead', async (t) => {
  const account = openAccount()
  const ahead = new PipelinedBytes(account)
  let pieces = 0
  for (; !ahead.isFull; pieces++) ahead.add(byte)
  t.ok(pieces <= mostPieces, `${pieces} pieces`)
  t.equal(account.heldBytes, pieces * (1 + pieceBytes))
  t.equal(ahead.take().length, pieces)
  t.equal(account.heldBytes, 0)
})

t.test('so do those of bodies that wait', async (t) => {
  const account = openAccount()
  const chunks = new HeldChunks(account, 64 * 1_024)
  let pieces = 0
  for (; !chunks.isFull; pieces++) chunks.push(byte)
  t.ok(pieces <= 2 * mostPieces, `${pieces} pieces`)
  t.equal(account.heldBytes, pieces * (1 + pieceBytes))
  chunks.shift()
  t.equal(account.heldBytes, (pieces - 1) * (1 + pieceBytes))
  t.equal(chunks.takeAll().length, pieces - 1)
  t.equal(account.heldBytes, 0)
})

t.test('and those of a head', async (t) => {
  const limits = new ParseLimits(64 * 1_024)
  limits.beginHead()
  for (let reads = 0; reads < 1_000; reads++) limits.endBytes(1, true)
  t.ok(limits.headBytes > 30_000, `${limits.headBytes} bytes`)
  limits.beginHead()
  t.equal(limits.headBytes, 0)
})

/** A socket that takes bytes and passes none on. */
class DeafSocket extends Duplex {
  override _read(): void {}
  override _write(): void {}
  setTimeout(): void {}
}

t.test('few pieces are written to a peer that takes nothing', async (t) => {
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
  t.ok(account.heldBytes > pieces * pieceBytes, `${account.heldBytes} bytes`)
  socket.destroy()
})

t.test('few pass through a tunnel to such a peer, and more once they have left', async (t) => {
  const account = openAccount()
  const [client, upstream] = [new DeafSocket(), new DeafSocket()]
  const events = new EventEmitter()
  let isOpen = false
  const setOpen = (wanted: boolean) => (): void => {
    isOpen = wanted
  }
  const idle = { open: () => undefined, close: () => undefined, detach: () => undefined }
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
  t.ok(account.heldBytes > pieces * pieceBytes, `${account.heldBytes} bytes`)
  upstream.emit('drain')
  t.ok(isOpen)
  for (const socket of [client, upstream]) socket.destroy()
})
