import { Deadline } from '../../base/lib/deadline.ts'
import type { ListenerOptions } from '../engine.ts'

/** Time for the rest of a body that a response has made useless. */
const unwantedBodyMs = 5_000

/**
 * The states of a client's connection, and the only hand at its deadline.
 *
 * | State     | Bytes that come              | Deadline                          | Next                                       |
 * |-----------|------------------------------|-----------------------------------|--------------------------------------------|
 * | idle      | begin a head                 | of the first head, or keep-alive  | head, body                                 |
 * | head      | go on with the head          | of the head                       | body                                       |
 * | body      | are the body                 | the body's, as long as it sets it | answer, draining, poisoned                 |
 * | answer    | wait for the response's end  | none: slow readers are watched    | idle, pipelined                            |
 * | pipelined | wait behind those that wait  | keep-alive                        | idle in the next turn, which reads them    |
 * | draining  | are dropped: a useless body  | of that body's rest               | idle, pipelined, closing                   |
 * | poisoned  | are ignored: malformed body  | none: the response comes          | refused, closing                           |
 * | refused   | are ignored                  | the body's, if it was one         | closing                                    |
 * | closing   | are ignored                  | none: lingering has its own       | closed                                     |
 * | tunnel    | are the tunnel's             | none: the tunnel has its own      | closed                                     |
 * | closed    | cannot come                  | none                              |                                            |
 *
 * A refusal leads from each state above `refused` to it or to `closing`. Another owner of the socket makes each a `tunnel`,
 * and its end makes each `closed`. A refused connection reads nothing, since the position of the next request is unknown.
 *
 * In `idle`, `head`, `pipelined` and `draining` a deadline is always set: the client owes bytes. A body that ended must
 * not stop the deadline of what came after it, so a body is heard in its own state alone.
 */
export type ClientStateName =
  | 'idle'
  | 'head'
  | 'body'
  | 'answer'
  | 'pipelined'
  | 'draining'
  | 'poisoned'
  | 'refused'
  | 'closing'
  | 'tunnel'
  | 'closed'

/** States of which no byte is parsed or kept. */
const deaf: ReadonlySet<ClientStateName> = new Set(['poisoned', 'refused', 'closing', 'tunnel', 'closed'])

/** States that no refusal leaves, since it was given, or cannot be any more. */
const over: ReadonlySet<ClientStateName> = new Set(['refused', 'closing', 'tunnel', 'closed'])

type StateTimeouts = Pick<ListenerOptions, 'headersTimeoutMs' | 'requestTimeoutMs' | 'keepAliveMs'>

type StateOwner = Readonly<{ headLate: () => void; waitOver: () => void; destroy: () => void }>

const onHeadLate = (owner: StateOwner): void => owner.headLate()

const onWaitOver = (owner: StateOwner): void => owner.waitOver()

export class ClientState {
  #name: ClientStateName = 'idle'
  readonly #owner: StateOwner
  readonly #timeouts: StateTimeouts
  readonly #deadline: Pick<Deadline, 'set' | 'stop' | 'discard'>
  #requestDueMs = Number.POSITIVE_INFINITY

  constructor(
    owner: StateOwner,
    timeouts: StateTimeouts,
    deadline: Pick<Deadline, 'set' | 'stop' | 'discard'> = new Deadline(owner),
  ) {
    this.#owner = owner
    this.#timeouts = timeouts
    this.#deadline = deadline
  }

  get name(): ClientStateName {
    return this.#name
  }

  get ignoresBytes(): boolean {
    return deaf.has(this.#name)
  }

  /** Whether bytes wait for the request before theirs, or for the turn in which they are read. */
  get keepsBytes(): boolean {
    return this.#name === 'answer' || this.#name === 'pipelined'
  }

  get isOver(): boolean {
    return over.has(this.#name)
  }

  /** For the first head, before whose first byte a client may be silent as long as within it. */
  start(): void {
    this.#awaitHead()
  }

  beginHead(): void {
    if (this.#name !== 'idle') return
    this.#name = 'head'
    this.#awaitHead()
  }

  /** The head is whole. A body of no bytes ends at once. */
  open(): void {
    if (this.#name === 'idle') this.#startRequest()
    else if (this.#name !== 'head') return
    this.#name = 'body'
    this.#deadline.stop()
  }

  /** The request is whole. */
  complete(): void {
    if (this.#name !== 'body') return
    this.#name = 'answer'
    this.#deadline.stop()
  }

  /** The response was sent, and the request is whole. */
  next(hasBytes: boolean): void {
    if (this.#name !== 'answer' && this.#name !== 'draining') return
    this.#name = hasBytes ? 'pipelined' : 'idle'
    this.#deadline.set(this.#timeouts.keepAliveMs, this.#owner, onWaitOver)
  }

  /** False unless waiting bytes are to be read now. */
  takeTurn(): boolean {
    if (this.#name !== 'pipelined') return false
    this.#name = 'idle'
    return true
  }

  /** The response was sent before the request was whole. */
  drain(): void {
    if (this.#name !== 'body') return
    this.#name = 'draining'
    this.#deadline.set(this.#withinRequest(unwantedBodyMs), this.#owner, onWaitOver)
  }

  poison(): void {
    if (this.#name !== 'body') return
    this.#name = 'poisoned'
    this.#deadline.stop()
  }

  /** A body under way may still fail by its silence, until the response is sent. */
  refuse(): void {
    if (this.isOver) return
    if (this.#name !== 'body') this.#deadline.stop()
    this.#name = 'refused'
  }

  linger(): void {
    if (this.#name === 'tunnel' || this.#name === 'closed') return
    this.#name = 'closing'
    this.#deadline.stop()
  }

  detach(): void {
    if (this.#name === 'closed') return
    this.#name = 'tunnel'
    this.#deadline.stop()
  }

  close(): void {
    this.#name = 'closed'
    this.#deadline.discard()
  }

  setForBody<Body>(delayMs: number, body: Body, onSilence: (body: Body) => void): void {
    if (this.#isBodys()) this.#deadline.set(this.#withinRequest(delayMs), body, onSilence)
  }

  stopForBody(): void {
    if (this.#isBodys()) this.#deadline.stop()
  }

  #isBodys(): boolean {
    return this.#name === 'body' || this.#name === 'refused'
  }

  #awaitHead(): void {
    this.#startRequest()
    this.#deadline.set(this.#withinRequest(this.#timeouts.headersTimeoutMs), this.#owner, onHeadLate)
  }

  #startRequest(): void {
    const { requestTimeoutMs } = this.#timeouts
    if (requestTimeoutMs !== undefined) this.#requestDueMs = performance.now() + requestTimeoutMs
  }

  #withinRequest(delayMs: number): number {
    if (this.#requestDueMs === Number.POSITIVE_INFINITY) return delayMs
    return Math.min(delayMs, Math.max(1, this.#requestDueMs - performance.now()))
  }
}
