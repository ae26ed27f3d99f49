import { once } from 'node:events'
import type { Socket } from 'node:net'
import { UpstreamError, type UpstreamRequest } from '../engine.ts'
import { isSoundHead } from '../sound-head.ts'
import { UpgradedSocket } from '../tunnel.ts'
import { isSwitched } from '../websocket.ts'
import { Alarm } from './alarm.ts'
import { type MessageHead, MessageParser } from './message-parser.ts'
import type { Origin } from './origin.ts'
import { WireRequestBody } from './request-body.ts'
import { composeFraming, composeRequestHead } from './request-head.ts'
import { Upload, type UploadEvents, type UploadWire } from './upload.ts'
import { type CallWire, type Settle, UpstreamCall } from './upstream-call.ts'

const headLimitBytes = 64 * 1024

/** Shorter than the idle time-out of common backends, so that fewer reuses meet a closing connection. */
const idleMs = 4_000

/** How a connection tells its pool what becomes of it. */
export type ConnectionEvents = Readonly<{ keep: () => void; forget: () => void }>

/** One connection to an upstream, and the request that is under way on it. */
export class UpstreamConnection implements CallWire, UploadWire, UploadEvents {
  readonly #origin: Origin
  readonly #socket: Socket
  readonly #events: ConnectionEvents
  readonly #parser = new MessageParser('response', headLimitBytes)
  readonly #alarm = new Alarm()
  readonly #ownsBytes: boolean
  #call: UpstreamCall | undefined
  #request: UpstreamRequest | undefined
  #upload: Upload | undefined
  #isOpen = false
  #isDropped = false
  #isSent = false
  #hasAnswered = false
  #isForHead = false
  #hasHead = false
  /** For how long the connection may be kept after this answer. */
  #keepMs = 0
  #error: Error | undefined

  constructor(origin: Origin, isForUpgrade: boolean, events: ConnectionEvents) {
    this.#origin = origin
    this.#events = events
    // A socket that leaves HTTP must be one like any other; so must one on TLS.
    this.#ownsBytes = isForUpgrade || origin.isEncrypted
    const socket = origin.open(this.#ownsBytes ? undefined : this.#onData)
    this.#socket = socket
    if (this.#ownsBytes) socket.on('data', this.#onData)
    socket.on(origin.isEncrypted ? 'secureConnect' : 'connect', this.#onOpen)
    socket.on('end', this.#onEnd)
    socket.on('drain', this.#onDrain)
    socket.on('error', this.#onError)
    socket.on('close', this.#onClose)
  }

  /** Sends a request, as soon as the connection is open. */
  begin(request: UpstreamRequest, settle: Settle): void {
    const call = new UpstreamCall(this, request.timeouts.idleMs, settle)
    this.#call = call
    this.#request = request
    this.#isSent = false
    this.#hasAnswered = false
    this.#hasHead = false
    this.#isForHead = request.method === 'HEAD'
    request.onCancellable(call.abort)
    if (this.#isOpen) this.#send(request, call)
    else this.#alarm.set(request.timeouts.connectMs, this.#onUnreachable)
  }

  write(bytes: string | Buffer): boolean {
    const socket = this.#socket
    const hasRoom = typeof bytes === 'string' ? socket.write(bytes, 'latin1') : socket.write(bytes)
    // Node counts what has just left as if it were waiting.
    return hasRoom || socket.writableLength === 0
  }

  sent(): void {
    this.#isSent = true
    this.#upload = undefined
    this.#awaitAnswer()
  }

  blocked(isBlocked: boolean): void {
    if (isBlocked) this.#awaitAnswer()
    else if (!this.#hasHead) this.#alarm.stop()
  }

  failed(error: UpstreamError): void {
    this.#call?.fail(error)
  }

  pauseReading(): void {
    if (!this.#socket.isPaused()) this.#socket.pause()
  }

  resumeReading(): void {
    if (this.#socket.isPaused()) this.#socket.resume()
  }

  watchSilence(silenceMs: number, onSilence: () => void): void {
    this.#alarm.set(silenceMs, onSilence)
  }

  /** Breaks the connection; a call that is under way on it learns of it when it has closed. */
  drop(): void {
    if (this.#isDropped) return
    this.#leave()
    this.#socket.destroy()
  }

  async close(): Promise<void> {
    const closed = this.#socket.closed ? undefined : once(this.#socket, 'close')
    this.drop()
    await closed
  }

  #leave(): void {
    this.#isDropped = true
    this.#alarm.discard()
    this.#upload?.leave()
    this.#upload = undefined
    this.#events.forget()
  }

  #send(request: UpstreamRequest, call: UpstreamCall): void {
    try {
      const { method, body, bodyLimitBytes, timeouts } = request
      const head = composeRequestHead(request, this.#origin.authority)
      if (body instanceof WireRequestBody) {
        const upload = new Upload(this, method, head, body, this)
        this.#upload = upload
        upload.start(bodyLimitBytes, timeouts.bodyIdleMs)
      } else {
        this.write(head + composeFraming(method, 0))
        this.sent()
      }
    } catch (cause) {
      call.fail('broken', cause)
    }
  }

  /** Only for what the upstream itself is waited for. */
  #awaitAnswer(): void {
    if (this.#request && !this.#hasHead) this.#alarm.set(this.#request.timeouts.firstByteMs, this.#onLate)
  }

  readonly #onOpen = (): void => {
    this.#isOpen = true
    this.#alarm.stop()
    if (this.#call && this.#request) this.#send(this.#request, this.#call)
  }

  readonly #onLate = (): void => this.#call?.fail('timeout')

  readonly #onUnreachable = (): void => this.#call?.fail('unreachable', new Error('connect time-out'))

  readonly #onIdle = (): void => this.drop()

  readonly #onDrain = (): void => this.#upload?.goOn()

  readonly #onError = (error: Error): void => {
    this.#error = error
  }

  readonly #onClose = (): void => {
    this.#parser.free()
    if (!this.#isDropped) this.#leave()
    const fault = !this.#isOpen ? 'unreachable' : this.#hasAnswered ? 'broken' : 'unanswered'
    this.#call?.fail(fault, this.#error)
    this.#call = undefined
    this.#request = undefined
  }

  readonly #onEnd = (): void => {
    const call = this.#call
    if (!call?.isPending) this.drop()
    else if (this.#parser.finish() && this.#parser.isComplete && this.#hasHead) this.#complete(call, false)
    else {
      this.#call = undefined
      this.drop()
      call.breakOff(new UpstreamError(this.#hasAnswered ? 'broken' : 'unanswered'))
    }
  }

  /** Bytes that nobody asked for may be the answer to somebody's next request: never read as one. */
  readonly #onData = (bytes: Buffer): void => {
    const call = this.#call
    if (!call?.isPending) {
      this.drop()
      return
    }
    this.#hasAnswered = true
    this.#read(bytes, call)
  }

  #read(bytes: Buffer, call: UpstreamCall): void {
    const parser = this.#parser
    parser.hasNoBody = this.#isForHead
    const fault = parser.execute(bytes)
    const rest = bytes.subarray(parser.consumedBytes)
    const head = parser.takeHead()
    if (head) {
      if (head.status < 200) {
        this.#takeInterim(head, rest, call)
        return
      }
      if (!isSoundAnswer(head)) {
        call.fail('broken', new Error('the head of the answer can be read in two ways'))
        return
      }
      this.#begin(head, call)
    }
    for (const chunk of parser.body) call.data(this.#ownsBytes ? chunk : Buffer.from(chunk))
    // Its reader may have left just now.
    if (!call.isPending) return
    if (fault) call.fail('broken', new Error(fault.code))
    else if (parser.isComplete) this.#complete(call, rest.length === 0)
  }

  #begin(head: MessageHead, call: UpstreamCall): void {
    this.#hasHead = true
    this.#keepMs =
      head.isKeptAlive && !this.#isForHead && !this.#request?.asksForWebSocket ? readIdleMs(head.headers) : 0
    // An answer may last for hours, and nobody asks what it answers.
    this.#request = undefined
    this.#alarm.stop()
    call.begin(head)
  }

  /** RFC 9110 15.2: more may follow; but we ask for no `100 Continue`, and for no other protocol unless we do. */
  #takeInterim(head: MessageHead, rest: Buffer, call: UpstreamCall): void {
    if (head.status === 101 && head.isUpgrade && this.#request?.asksForWebSocket) {
      this.#switch(this.#request, head, rest, call)
    } else if (head.status <= 101 || head.version !== '1.1') {
      call.fail('broken', new Error('an answer that nobody asked for'))
    } else {
      this.#parser.next()
      if (rest.length > 0) this.#read(rest, call)
    }
  }

  #switch(request: UpstreamRequest, head: MessageHead, rest: Buffer, call: UpstreamCall): void {
    if (!isSwitched(request.headers, head.headers)) {
      call.fail('broken', new Error('not the answer to this handshake'))
      return
    }
    const socket = this.#socket
    this.#call = undefined
    this.#leave()
    socket.off('data', this.#onData)
    socket.off('end', this.#onEnd)
    socket.off('drain', this.#onDrain)
    socket.pause()
    if (rest.length > 0) socket.unshift(rest)
    call.upgrade(head.headers, new UpgradedSocket(socket))
  }

  #complete(call: UpstreamCall, isAtEnd: boolean): void {
    const canKeep = isAtEnd && this.#isSent && this.#keepMs > 0 && this.#socket.writable
    this.#call = undefined
    if (canKeep) {
      this.#parser.next()
      this.resumeReading()
      this.#alarm.set(this.#keepMs, this.#onIdle)
      this.#events.keep()
    } else this.drop()
    call.complete()
  }
}

/** What neither the parser nor the house's own rule lets pass: a version that is none, and a length beside chunks. */
const isSoundAnswer = ({ status, version, headers }: MessageHead): boolean =>
  (version === '1.1' || version === '1.0') && isSoundHead(status, headers)

const keepAliveThresholdMs = 2_000
const keepAliveMaximumMs = 600_000

/** For how long an upstream says that it keeps a connection, less what its word may take on the way. */
function readIdleMs(headers: readonly string[]): number {
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (name.length !== 10 || name.toLowerCase() !== 'keep-alive') continue
    const [, seconds] = /timeout=(\d{1,9})/i.exec(headers[index + 1] ?? '') ?? []
    if (seconds !== undefined) return Math.min(Number(seconds) * 1_000 - keepAliveThresholdMs, keepAliveMaximumMs)
  }
  return idleMs
}
