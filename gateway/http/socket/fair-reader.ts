// Sockets below both sides: reads that take turns, writes that are joined, and ends that a peer still reads.
import type { ReadGate } from './read-gate.ts'
import { largestAffordable, type Owner, readTurns } from './read-turns.ts'
import type { ReadSize } from './shared-reads.ts'

/** Reads below this size are too small to tell how long a byte takes. */
const tellingBytes = 1024

/**
 * Pauses a socket whose bytes have no receiver, or whose turn has not come. libuv alone would read two mebibytes of
 * each large body before it serves a small request.
 */
export class FairReader {
  readonly #gate: ReadGate
  #isWanted = true
  #waitsFor: Owner | undefined
  #isExempt = false
  #msPerByte = 0

  constructor(gate: ReadGate) {
    this.#gate = gate
  }

  /**
   * Opens the gate whatever the budget says, until `takeTurns`. For a peer that has nothing to say: its next byte must
   * be heard at once, and ends the connection.
   */
  keepOpen(): void {
    this.leaveTurns()
    this.resume()
  }

  /** Waits for no turn until `takeTurns`, since what its owner owes does not concern the next one. Opens nothing. */
  leaveTurns(): void {
    this.#isExempt = true
    if (this.#waitsFor !== undefined) readTurns.leave(this.#waitsFor, this)
    this.#waitsFor = undefined
  }

  takeTurns(): void {
    this.#isExempt = false
  }

  /** Whether bytes of the peer wait for a turn. Its silence is then not its own. */
  get isHeld(): boolean {
    return this.#waitsFor !== undefined
  }

  get isOpen(): boolean {
    return this.#gate.isOpen()
  }

  pause(): void {
    this.#isWanted = false
    this.#gate.close()
  }

  resume(): void {
    this.#isWanted = true
    if (!this.isHeld) this.#gate.open()
  }

  detach(): void {
    this.#isWanted = false
    this.leaveTurns()
    this.#gate.detach()
  }

  /** The size of the next read: the wanted one, or less where its bytes take long. */
  limit(wanted: ReadSize): ReadSize {
    return largestAffordable(wanted, this.#msPerByte)
  }

  /**
   * Counts a read after it was processed, with the time that it took. A small read counts only as part of a large body,
   * with `isPart`, or if it took long.
   */
  count(owner: Owner, bytes: number, tookMs: number, isPart = false): void {
    if (bytes >= tellingBytes) this.#msPerByte = tookMs / bytes
    const mayGoOn = readTurns.charge(owner, bytes, tookMs, isPart)
    if (mayGoOn || this.isHeld || !this.#isWanted || this.#isExempt) return
    this.#waitsFor = owner
    this.#gate.hold()
    readTurns.wait(owner, this)
  }

  goOn(): void {
    if (!this.isHeld) return
    this.#waitsFor = undefined
    if (this.#isWanted) this.#gate.open()
    else this.#gate.letOut()
  }
}
