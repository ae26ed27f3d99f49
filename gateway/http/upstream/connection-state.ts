import type { FairReader } from '../socket/fair-reader.ts'
import type { Owner } from '../socket/read-turns.ts'
import type { ReadSize } from '../socket/shared-reads.ts'

/**
 * The states of a connection to an upstream, and the only hand at its read gate.
 *
 * | State      | Gate                                         | Bytes that come               | Next                            |
 * |------------|----------------------------------------------|-------------------------------|---------------------------------|
 * | connecting | as made: open                                | of no answer: closed          | busy, closed                    |
 * | busy       | as the answer's reader and the budget say    | the answer, once the head is out; else closed | draining, closed |
 * | draining   | open, whatever the budget says               | beyond the answer: closed     | idle after a whole turn, closed |
 * | idle       | open, whatever the budget says               | beyond the answer: closed     | busy, closed                    |
 * | closed     | detached                                     | ignored                       |                                 |
 *
 * *Idle* implies *open and silent for a whole turn of the event loop*: bytes that lie unread behind a closed gate would
 * be the next caller's answer. A turn, since the bytes of one write may need several reads, by TLS above all.
 */
export type ConnectionStateName = 'connecting' | 'busy' | 'draining' | 'idle' | 'closed'

export class ConnectionState {
  #name: ConnectionStateName = 'connecting'
  readonly #reader: FairReader

  constructor(reader: FairReader) {
    this.#reader = reader
  }

  get name(): ConnectionStateName {
    return this.#name
  }

  opened(): void {
    if (this.#name === 'connecting') this.#name = 'busy'
  }

  /** The answer is complete. Its reader may have paused, and the budget be spent: neither holds any more. */
  drain(): void {
    if (this.#name !== 'busy') return
    this.#name = 'draining'
    this.#reader.keepOpen()
  }

  /** After a whole turn without a byte. False where the gate is not open: then nothing is known of the peer. */
  rest(): boolean {
    if (this.#name !== 'draining' || !this.#reader.isOpen) return false
    this.#name = 'idle'
    return true
  }

  /** For the next request. False where the gate is not open, which no idle connection's is. */
  take(): boolean {
    if (this.#name !== 'idle' || !this.#reader.isOpen) return false
    this.#name = 'busy'
    this.#reader.takeTurns()
    return true
  }

  get isHeld(): boolean {
    return this.#reader.isHeld
  }

  close(): void {
    this.#name = 'closed'
    this.#reader.leaveTurns()
  }

  /** Leaves the socket to another owner, as with a WebSocket. */
  detach(): void {
    this.#name = 'closed'
    this.#reader.detach()
  }

  pause(): void {
    if (this.#name === 'busy') this.#reader.pause()
  }

  resume(): void {
    if (this.#name === 'busy') this.#reader.resume()
  }

  /** Counts a read after it was processed, which may have completed the answer. */
  count(owner: Owner, bytes: number, tookMs: number, isPart: boolean): void {
    if (this.#name !== 'closed') this.#reader.count(owner, bytes, tookMs, isPart)
  }

  /** The size of the next read. */
  limit(wanted: ReadSize): ReadSize {
    return this.#reader.limit(wanted)
  }
}
