import type { Socket } from 'node:net'
import { drawNumbers } from '../support/event-streams.ts'

/** Not a multiple of any buffer's size, so that lost, doubled or moved bytes make a difference. */
const periodBytes = 1_000_003
/** The size of one write. A socket's read returns 64 KiB at most. */
const writeBytes = 256 * 1024

const draw = drawNumbers(7)
const period = Buffer.from(Uint8Array.from({ length: periodBytes }, () => Math.floor(draw() * 256)))
const pattern = Buffer.concat([period, period])

/** Bytes of the content from an offset on, for a length below one period. */
export const contentAt = (offset: number, length: number): Buffer =>
  pattern.subarray(offset % periodBytes, (offset % periodBytes) + length)

/** Writes the first `totalBytes` of the content, at the pace of the reader. */
export function sendContent(socket: Socket, totalBytes: number, tell: (sentBytes: number) => void = () => {}): void {
  let sentBytes = 0
  const send = (): void => {
    let isTaken = true
    while (isTaken && sentBytes < totalBytes && !socket.destroyed) {
      const bytes = contentAt(sentBytes, Math.min(writeBytes, totalBytes - sentBytes))
      sentBytes += bytes.length
      isTaken = socket.write(bytes)
    }
    tell(sentBytes)
    if (sentBytes === totalBytes) socket.off('drain', send)
  }
  socket.on('drain', send)
  send()
}

/** Compares what arrives with the content. */
export type Checker = Readonly<{ take: (bytes: Buffer) => void; receivedBytes: () => number; isSame: () => boolean }>

export function createChecker(): Checker {
  let receivedBytes = 0
  let isSame = true
  return {
    take: (bytes) => {
      isSame &&= bytes.equals(contentAt(receivedBytes, bytes.length))
      receivedBytes += bytes.length
    },
    receivedBytes: () => receivedBytes,
    isSame: () => isSame,
  }
}

/** A listener for a socket's data. It calls back with the head of a message, and then with the bytes behind it. */
export function readMessage(onHead: (head: string) => void, onBody: (bytes: Buffer) => void) {
  let head: string | undefined
  let early = Buffer.alloc(0)
  return (bytes: Buffer): void => {
    if (head !== undefined) {
      onBody(bytes)
      return
    }
    early = Buffer.concat([early, bytes])
    const end = early.indexOf('\r\n\r\n')
    if (end < 0) return
    head = early.toString('latin1', 0, end)
    onHead(head)
    onBody(early.subarray(end + 4))
  }
}
