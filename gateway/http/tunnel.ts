import type { Socket } from 'node:net'
import { guarded } from '../base/fault/guarded.ts'
import {
  Holding,
  type MemoryAccount,
  mostPieces,
  type PassedBytes,
  pieceBytes,
  type UpgradedConnection,
} from './exchange.ts'
import { closeLingering } from './socket/close-lingering.ts'
import { HandleGate, type ReadGate } from './socket/read-gate.ts'
import { noteTunnel, resetConnection } from './socket/transport.ts'
import { composeCloseFrame, FrameBoundary } from './websocket.ts'

export class UpgradedSocket implements UpgradedConnection {
  readonly socket: Socket

  constructor(socket: Socket) {
    this.socket = socket
    // Without a listener a reset ends the process; `close` follows and is enough.
    socket.on('error', () => {})
  }

  destroy(): void {
    this.socket.destroy()
  }
}

export type TunnelEnd = Readonly<{
  socket: Socket
  gate: ReadGate
  listen: (listener: (bytes: Buffer) => void) => void
}>

export const endOf = (socket: Socket): TunnelEnd => ({
  socket,
  gate: new HandleGate(socket),
  listen: (listener) =>
    void socket.on(
      'data',
      guarded('client', listener, () => socket.destroy()),
    ),
})

export type Tunnel = Readonly<{
  countPassed: () => PassedBytes
  isWhole: () => boolean
  /** Stops both directions at once. The client gets a close frame if one can follow what it has received. */
  close: (code: number) => void
}>

/**
 * Passes opaque bytes both ways, at the pace of the slower side. The bytes that the client sent before its 101 go
 * first. The end of a side ends the other one, after all earlier bytes.
 */
export function pipeBoth(
  clientEnd: TunnelEnd,
  upstreamEnd: TunnelEnd,
  early: Buffer,
  idleMs: number,
  account: MemoryAccount,
): Tunnel {
  const { socket: client } = clientEnd
  const { socket: upstream } = upstreamEnd
  noteTunnel(client, upstream)
  const waiting = new Holding(account)
  const toUpstream = { bytes: early.length, pieces: 1 }
  const toClient = { bytes: 0, pieces: 0, boundary: new FrameBoundary() }
  const count = (): void => waiting.set(waitingBytes(client, toClient) + waitingBytes(upstream, toUpstream))
  if (early.length > 0) upstream.write(early)
  pass(clientEnd, upstream, count, toUpstream)
  pass(upstreamEnd, client, count, toClient)
  count()
  // Every byte passes the client's socket in one direction or the other: its timeout serves both.
  const cut = (): void => {
    client.destroy()
    upstream.destroy()
  }
  const onClientClose = (): void => {
    count()
    if (!client.readableEnded) {
      upstream.destroy()
      return
    }
    upstream.setTimeout(idleMs, () => upstream.destroy())
    closeLingering(upstream)
  }
  const onUpstreamClose = (): void => {
    count()
    closeLingering(client)
  }
  client.setTimeout(idleMs, guarded('client', cut))
  client.once('close', guarded('client', onClientClose, cut))
  upstream.once('close', guarded('upstream', onUpstreamClose, cut))
  const close = (code: number): void => {
    upstream.destroy()
    const canFollow = toClient.boundary.isReached && client.writable && client.writableLength === 0
    if (canFollow) {
      client.write(composeCloseFrame(code))
      closeLingering(client, resetConnection)
    } else resetConnection(client)
  }
  return {
    countPassed: () => ({ received: toUpstream.bytes, sent: toClient.bytes }),
    isWhole: () => client.readableEnded && upstream.readableEnded,
    close,
  }
}

function waitingBytes({ destroyed, writableLength, readableLength }: Socket, { pieces }: Passed): number {
  if (destroyed) return 0
  return readableLength + writableLength + (writableLength > 0 ? pieces * pieceBytes : 0)
}

type Passed = { bytes: number; pieces: number; readonly boundary?: FrameBoundary }

const nothing = Buffer.alloc(0)

/** Like `pipe`, but reading stops as soon as the other side is full, of bytes or of pieces. Node emits `drain` for bytes alone. */
function pass({ socket, gate, listen }: TunnelEnd, to: Socket, count: () => void, passed: Passed): void {
  const cut = (): void => {
    socket.destroy()
    to.destroy()
  }
  const goOn = guarded<Error | null | undefined>('client', () => void to.emit('drain'), cut)
  listen((bytes) => {
    if (!to.writable) return
    passed.bytes += bytes.length
    passed.pieces = to.writableLength === 0 ? 1 : passed.pieces + 1
    passed.boundary?.pass(bytes)
    const hasRoom = to.write(bytes)
    if (hasRoom && passed.pieces < mostPieces) return
    if (hasRoom) to.write(nothing, goOn)
    gate.close()
    count()
  })
  const onDrain = (): void => {
    count()
    gate.open()
  }
  to.on('drain', guarded('client', onDrain, cut))
  to.on(
    'close',
    guarded('client', () => gate.open(), cut),
  )
  socket.on(
    'end',
    guarded('client', () => to.end(), cut),
  )
  gate.open()
}
