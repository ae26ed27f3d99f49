// A hostile cluster of a tenant, in a process of its own. With the argument `interim` it answers each request with 16,000 heads
// of 102 in one write. With `silent` it never answers, and with `blank-lines` it answers with an endless event stream of them.
import { type AddressInfo, createServer, type Socket } from 'node:net'

const interim = Buffer.from(`${'HTTP/1.1 102\r\n\r\n'.repeat(16_000)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`)

const streamHead = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n'

/** 0.8 MB a second, in the pieces that stopped a gateway. */
const blankLines = Buffer.alloc(64 * 1024, '\n')
const blankLinesEveryMs = 80

function answer(socket: Socket): void {
  if (process.argv[2] === 'interim') socket.write(interim)
  if (process.argv[2] !== 'blank-lines') return
  socket.write(streamHead)
  const timer = setInterval(() => socket.writableNeedDrain || socket.write(blankLines), blankLinesEveryMs)
  socket.on('close', () => clearInterval(timer))
}

const server = createServer((socket) => {
  socket.on('error', () => {})
  if (process.argv[2] === 'blank-lines') socket.once('data', () => answer(socket)).resume()
  else socket.on('data', () => answer(socket))
}).listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  process.send?.(port)
})
process.on('disconnect', () => process.exit())
