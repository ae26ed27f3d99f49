import { Socket } from 'node:net'
import type { ConnectionAccount, MemoryBudget } from '../../../gateway/http/memory-budget.ts'
import type { BatchedWriter } from '../../../gateway/http/socket/batched-writer.ts'
import type { readTurns } from '../../../gateway/http/socket/read-turns.ts'
import { note } from './column.ts'

/** Parts of a gateway, from its sources or from its build. */
export type Parts = Readonly<{
  readTurns: typeof readTurns
  MemoryBudget: typeof MemoryBudget
  ConnectionAccount: typeof ConnectionAccount
  BatchedWriter: typeof BatchedWriter
}>

/** More than one turn has for all reads together. */
const spentMs = 8
const largeBytes = 64 * 1024

/** Other sockets have spent the turn whenever a read ends, and a small read counts as one that took long. */
export function pressReads({ readTurns }: Parts): void {
  const charge = readTurns.charge.bind(readTurns)
  const wait = readTurns.wait.bind(readTurns)
  readTurns.charge = (owner, bytes, tookMs) => {
    charge('flood', largeBytes, spentMs, true)
    return charge(owner, bytes, tookMs, true)
  }
  readTurns.wait = (owner, waiter) => {
    note()
    wait(owner, waiter)
  }
}

/** Networks that hold a little each, so that an equal share is small. RFC 2544 keeps these addresses for benches. */
const crowd = Array.from({ length: 200 }, (_, index) => `198.18.0.${index}`)
const greedy = '198.19.0.1'
/** The greedy network has so many connections. A relief cuts some of them. */
const greedyParts = 32

/**
 * A crowd and a greedy network fill the budget, and each byte that a test's connection makes the gateway hold exceeds it.
 * Then the greedy one is relieved, and holds as much again in the next turn. The connections of a test are throttled, and
 * never cut, since they hold less.
 */
export function pressMemory({ MemoryBudget, ConnectionAccount }: Parts): void {
  const { open } = MemoryBudget.prototype
  const { hold } = ConnectionAccount.prototype
  const pressed = new WeakSet<MemoryBudget>()
  const budgets = new WeakMap<ConnectionAccount, MemoryBudget>()
  const press = (budget: MemoryBudget): void => {
    pressed.add(budget)
    const { limitBytes } = budget
    for (const address of crowd) open.call(budget, address, { relieve: () => undefined }).hold(limitBytes / 4_096)
    let lost = 0
    const fill = (): void => {
      const relieve = (): void => {
        note()
        lost += 1
        if (lost === 1) setImmediate(refill)
      }
      open.call(budget, greedy, { relieve }).hold(limitBytes / greedyParts)
    }
    const refill = (): void => {
      const count = lost
      lost = 0
      for (let filled = 0; filled < count; filled += 1) fill()
    }
    while (budget.heldBytes + limitBytes / greedyParts < limitBytes) fill()
  }
  MemoryBudget.prototype.open = function (address, holder) {
    if (Number.isFinite(this.limitBytes) && !pressed.has(this)) press(this)
    const account = open.call(this, address, holder)
    if (pressed.has(this)) budgets.set(account, this)
    return account
  }
  ConnectionAccount.prototype.hold = function (bytes) {
    hold.call(this, bytes)
    const budget = budgets.get(this)
    if (!budget) return
    const excess = open.call(budget, greedy, { relieve: note })
    excess.hold(budget.limitBytes / greedyParts)
    excess.close()
  }
}

/** Each account holds more than its share, at any time. */
export function pressAccount({ ConnectionAccount }: Parts): void {
  const get = (): boolean => {
    note()
    return true
  }
  Object.defineProperty(ConnectionAccount.prototype, 'isThrottled', { get })
}

/** The members of a socket that Node's types omit: its write to the system, and the state of its buffer. */
type Inner = {
  _writeGeneric: (...args: unknown[]) => void
  _writableState: { highWaterMark: number }
}

/** As long as the peer takes no more. Longer than a turn, so that the next reads and requests find the socket full. */
const blockedMs = 3

/** Each write of a gateway waits for its peer, and says so. */
export function pressWrites({ BatchedWriter }: Parts): void {
  let isGateways = false
  const blocked = new WeakSet<Socket>()
  const block = (socket: Socket): void => {
    blocked.add(socket)
    const inner = socket as unknown as Inner
    const write = inner._writeGeneric
    inner._writableState.highWaterMark = 1
    inner._writeGeneric = (...args) => {
      note()
      setTimeout(() => write.apply(socket, args), blockedMs)
    }
  }
  const { write } = Socket.prototype
  Socket.prototype.write = function (this: Socket, ...args: unknown[]) {
    if (isGateways && !blocked.has(this)) block(this)
    return write.apply(this, args as Parameters<typeof write>)
  } as typeof write
  const { write: writeBatched, flush } = BatchedWriter.prototype
  const within = <Result>(work: () => Result): Result => {
    const before = isGateways
    isGateways = true
    try {
      return work()
    } finally {
      isGateways = before
    }
  }
  BatchedWriter.prototype.write = function (...args) {
    return within(() => writeBatched.apply(this, args))
  }
  BatchedWriter.prototype.flush = function () {
    within(() => flush.call(this))
  }
}
