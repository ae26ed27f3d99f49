import { connect, type Socket } from 'node:net'
import { call } from '../support/client.ts'
import type { Owner } from '../support/owner.ts'
import { type AnswerHead, readAnswerHeads } from './judge-answer.ts'

/** Sends bytes and resolves with the heads that came back for them, none where the gateway waits for more. */
export type SendBytes = (bytes: Buffer) => Promise<readonly AnswerHead[]>

/** The longest silence of the gateway once it has begun to answer. */
const silenceMs = 250

/**
 * One client. Its connection is kept as long as the gateway keeps it and every answer could be read to its end. An answer
 * begins in time, or the gateway is taken to wait for more. On a busy machine it is only late, as is its answer to another
 * request.
 */
export function openSender(owner: Owner, origin: string, firstByteMs = silenceMs): SendBytes {
  const { hostname, port } = new URL(origin)
  let current: Socket | undefined
  owner.teardown(() => current?.destroy())
  return (bytes) =>
    new Promise((resolve) => {
      const socket = current && !current.destroyed ? current : connect(Number(port), hostname)
      current = socket
      let text = ''
      let isOver = false
      const finish = (isKept: boolean): void => {
        isOver = true
        clearTimeout(timer)
        socket.removeAllListeners()
        socket.on('error', () => {})
        if (!isKept) {
          socket.destroy()
          current = undefined
        }
        resolve(readAnswerHeads(text))
      }
      const giveUp = async (): Promise<void> => {
        await call(origin, { path: '/nowhere' }).catch(() => undefined)
        if (!isOver && text === '') timer = setTimeout(() => finish(false), firstByteMs)
      }
      let timer = setTimeout(giveUp, firstByteMs)
      socket.on('error', () => {})
      socket.on('close', () => finish(false))
      socket.on('end', () => finish(false))
      socket.on('data', (chunk) => {
        clearTimeout(timer)
        timer = setTimeout(() => finish(false), silenceMs)
        text += chunk.toString('latin1')
        if (isWhole(text)) finish(!/\r\nconnection: close\r\n/i.test(text))
      })
      socket.write(bytes)
    })
}

/** One answer with its body, and nothing behind it; the bodies of answers to HEAD never come, and time out. */
function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return false
  const head = text.slice(0, end + 2)
  if (/\r\ntransfer-encoding: chunked\r\n/i.test(head)) return text.endsWith('\r\n0\r\n\r\n')
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1]
  return length !== undefined && text.length === end + 4 + Number(length)
}
