import type { Socket } from 'node:net'
import type { RefusalCode } from '../../errors/gateway-error.ts'
import { composeRefusal } from '../refusal.ts'
import type { NodeExchange } from './exchange.ts'

/** How long a client may take to close a connection that we have refused. */
const lingerMs = 1_000

const ignore = (): void => {}

/** One client's connection, and the exchanges that are open on it, in the order of their requests. */
export class Connection {
  readonly #socket: Socket
  readonly #exchanges: NodeExchange[] = []
  #isRefused = false
  #isLast = false

  constructor(socket: Socket) {
    this.#socket = socket
    // node:http takes its listeners off a CONNECT's socket: a reset would then end the process.
    socket.on('error', ignore)
    socket.on('close', () => {
      for (const exchange of [...this.#exchanges]) exchange.abandon()
    })
  }

  /** True once it was refused as a whole: what still arrives on it may be the rest of anything, and is no request. */
  get isRefused(): boolean {
    return this.#isRefused
  }

  /** False once nothing that arrives is a request any more; a body under way is read to its end. */
  get takesRequests(): boolean {
    return !this.#isRefused && !this.#isLast
  }

  get hasReceived(): boolean {
    return this.#socket.bytesRead > 0
  }

  get peerAddress(): string {
    return this.#socket.remoteAddress ?? ''
  }

  /** True while the rest of a request is on its way. */
  get isReceiving(): boolean {
    return this.#exchanges.some(({ isReceiving }) => isReceiving)
  }

  add(exchange: NodeExchange): void {
    this.#exchanges.push(exchange)
    exchange.onEnd(() => this.#exchanges.splice(this.#exchanges.indexOf(exchange), 1))
  }

  /** Calls back when no answer is owed any more, at once where none is; a connection that breaks owes none. */
  onIdle(listener: () => void): void {
    if (this.#exchanges.length === 0) {
      listener()
      return
    }
    for (const exchange of [...this.#exchanges])
      exchange.onEnd(() => {
        if (this.#exchanges.length === 0) listener()
      })
  }

  /** To be called when node:http has taken its parser and its listeners off the socket. */
  leaveParser(): void {
    // The answer under way would not hear that it may go on.
    this.#socket.on('drain', this.#goOn)
    // Where it had stopped reading, the socket still waits for the read under way: nothing came of it.
    this.#socket.push('')
  }

  /** To be called before node:http puts a new parser and its listeners on the socket. */
  awaitParser(): void {
    this.#socket.off('drain', this.#goOn)
    // Set after an earlier answer, by a parser that would have cleared it.
    this.#socket.setTimeout(0)
  }

  readonly #goOn = (): void => {
    const [first] = this.#exchanges
    first?.goOn()
  }

  /** Nothing that arrives from now on is read as a request. */
  markRefused(): void {
    this.#isRefused = true
  }

  /** The request that was just read is the last one. */
  markLast(): void {
    this.#isLast = true
  }

  /**
   * Answers bytes that could not be read, and closes; once, since the parser fails anew with every packet that
   * follows. Never in the place, or in the middle, of an earlier request's answer.
   */
  refuse(code: RefusalCode, requestId: string): void {
    if (this.#isRefused) return
    this.#isRefused = true
    const last = this.#exchanges.at(-1)
    const before = this.#exchanges.at(-2)
    if (!last) {
      this.#writeRefusal(code, requestId)
    } else if (!this.isReceiving) {
      // The next head is at fault: the answers before it go out first.
      this.onIdle(() => this.#writeRefusal(code, requestId))
    } else if (before) {
      before.onEnd(() => this.#refuseBody(last, code, requestId))
    } else {
      this.#refuseBody(last, code, requestId)
    }
  }

  #refuseBody(exchange: NodeExchange, code: RefusalCode, requestId: string): void {
    if (exchange.hasStarted) {
      this.destroy()
      return
    }
    // This is its answer.
    this.#writeRefusal(code, requestId)
    exchange.abandon()
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #writeRefusal(code: RefusalCode, requestId: string): void {
    const socket = this.#socket
    if (!socket.writable) {
      socket.destroy()
      return
    }
    socket.end(composeRefusal(code, requestId))
    const timer = setTimeout(() => socket.destroy(), lingerMs)
    socket.once('close', () => clearTimeout(timer))
  }
}
