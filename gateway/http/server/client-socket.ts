import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { type ClientCertificate, Holding } from '../exchange.ts'
import type { ConnectionAccount, MemoryBudget } from '../memory-budget.ts'
import { BatchedWriter } from '../socket/batched-writer.ts'
import { closeLingering } from '../socket/close-lingering.ts'
import { FairReader } from '../socket/fair-reader.ts'
import { gateOf } from '../socket/read-gate.ts'
import { joinConnection } from '../socket/shared-listener.ts'
import { SharedReadSocket } from '../socket/shared-read-socket.ts'
import type { ReadSize } from '../socket/shared-reads.ts'
import { resetConnection } from '../socket/transport.ts'
import { describeCertificate } from '../tls/certificates.ts'
import type { Http1RequestBody } from './request-body.ts'

/** Nearly all heads are smaller, and the memory that each connection counts as has room for these. */
const usualHeadBytes = 4 * 1024

/** Copies of a head: the one that was read, and the one composed for the upstream. */
const headCopies = 2

export class ClientSocket {
  readonly socket: Socket
  readonly peerAddress: string
  readonly account: ConnectionAccount
  protected readonly input: SharedReadSocket
  protected readonly reader: FairReader
  protected readonly writer: BatchedWriter
  readonly #head: Holding
  #mayWait = false
  #isLingerLimited = false
  #isDistrusted = false
  protected body: Http1RequestBody | undefined

  constructor(accepted: Socket, memory: MemoryBudget) {
    this.peerAddress = accepted.remoteAddress ?? ''
    this.account = memory.open(this.peerAddress, this)
    this.#head = new Holding(this.account)
    this.input = new SharedReadSocket(accepted, this)
    const { socket } = this.input
    this.socket = socket
    joinConnection(socket, this)
    this.reader = new FairReader(gateOf(socket, !this.input.ownsBytes))
    this.writer = new BatchedWriter(socket, this.account)
    socket.on('error', ignore)
  }

  get isEncrypted(): boolean {
    return this.socket instanceof TLSSocket
  }

  get clientCertificate(): ClientCertificate | undefined {
    if (this.#isDistrusted || !(this.socket instanceof TLSSocket) || !this.socket.authorized) return undefined
    const certificate = this.socket.getPeerX509Certificate()
    return certificate && describeCertificate(certificate)
  }

  forgetCertificate(): void {
    this.#isDistrusted = true
  }

  chooseSize(): ReadSize {
    if (this.account.isThrottled) return 'sparing'
    return this.body?.isFlowing ? this.reader.limit('large') : 'small'
  }

  get isHeld(): boolean {
    return this.reader.isHeld
  }

  pauseReading(): void {
    this.reader.pause()
  }

  resumeReading(): void {
    this.reader.resume()
  }

  count(): void {
    if (!this.#mayWait) return
    this.writer.count()
    this.#mayWait = !this.socket.destroyed && this.socket.writableLength > 0
  }

  write(bytes: string | Buffer, onWritten?: (error?: Error | null) => void): boolean {
    this.#mayWait = true
    return this.socket.writable && this.writer.write(bytes, onWritten)
  }

  writeBorrowed(bytes: Buffer): boolean {
    this.#mayWait = true
    return this.socket.writable && this.writer.writeBorrowed(bytes)
  }

  writeContinue(): void {
    this.write('HTTP/1.1 100 Continue\r\n\r\n')
  }

  isCongested(): boolean {
    return this.writer.isCongested()
  }

  protected holdHead(headBytes: number): void {
    if (headBytes > usualHeadBytes) this.#head.set(headBytes * headCopies)
  }

  releaseHead(): void {
    this.#head.set(0)
  }

  limitLinger(): void {
    this.#isLingerLimited = true
  }

  protected linger(): void {
    this.writer.flush()
    this.resumeReading()
    closeLingering(this.socket, this.#isLingerLimited ? resetConnection : undefined)
  }

  relieve(): void {
    this.reset()
  }

  destroy(): void {
    this.writer.flushTruncated()
    this.socket.destroy()
  }

  reset(): void {
    this.writer.flushTruncated()
    resetConnection(this.socket)
  }

  drop(): void {
    resetConnection(this.socket)
  }
}

const ignore = (): void => {}
