import { connect, type Socket } from 'node:net'
import type { Owner } from '../support/owner.ts'

/** Sends bytes and resolves with the statuses that came back for them, none where the gateway waits for more. */
export type SendBytes = (bytes: Buffer) => Promise<readonly number[]>

/** How long the gateway may say nothing before the connection is given up. */
const silenceMs = 250

/** One client. Its connection is kept as long as the gateway keeps it and every answer could be read to its end. */
export function openSender(owner: Owner, origin: string): SendBytes {
  const { hostname, port } = new URL(origin)
  let current: Socket | undefined
  owner.teardown(() => current?.destroy())
  return (bytes) =>
    new Promise((resolve) => {
      const socket = current && !current.destroyed ? current : connect(Number(port), hostname)
      current = socket
      let text = ''
      const finish = (isKept: boolean): void => {
        clearTimeout(timer)
        socket.removeAllListeners()
        socket.on('error', () => {})
        if (!isKept) {
          socket.destroy()
          current = undefined
        }
        resolve([...text.matchAll(/HTTP\/1\.1 (\d{3}) [^\r]*\r\n[a-z]/gi)].map(([, status]) => Number(status)))
      }
      const timer = setTimeout(() => finish(false), silenceMs)
      socket.on('error', () => {})
      socket.on('close', () => finish(false))
      socket.on('end', () => finish(false))
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1')
        if (isWhole(text)) finish(!/\r\nconnection: close\r\n/i.test(text))
      })
      socket.write(bytes)
    })
}

/** One answer with its body, and nothing behind it; the bodies of answers to HEAD never come, and time out. */
function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(text.slice(0, end + 2))?.[1]
  return end >= 0 && length !== undefined && text.length === end + 4 + Number(length)
}
