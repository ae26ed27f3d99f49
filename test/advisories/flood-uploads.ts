// Uploads of a client without a credential, as fast as a gateway takes them: `flood-uploads.ts PORT PATH COUNT`.
import { connect } from 'node:net'

const [port, path, count] = process.argv.slice(2)
const bodyBytes = 100_000_000
/** Enough for the gateway to spend the read budget of a turn on it. */
const chunk = Buffer.alloc(512 * 1024, 'u')

function upload(): void {
  const socket = connect(Number(port), '127.0.0.1')
  let left = bodyBytes
  const write = (): void => {
    while (left > 0 && !socket.destroyed) {
      const part = chunk.subarray(0, left)
      left -= part.length
      if (!socket.write(part)) return
    }
  }
  socket.on('error', () => {})
  socket.on('drain', write)
  socket.once('drain', () => process.send?.('it flows'))
  socket.on('data', () => {})
  // The gateway drains a refused upload for a while, and then closes.
  socket.on('close', () => setTimeout(upload, 1))
  socket.write(`POST ${path} HTTP/1.1\r\nhost: h\r\ncontent-length: ${bodyBytes}\r\n\r\n`)
  write()
}

for (let started = 0; started < Number(count); started += 1) upload()
process.on('disconnect', () => process.exit())
