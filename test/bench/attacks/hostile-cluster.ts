// A hostile cluster of a tenant, in a process of its own. With the argument `interim` it answers each request with 16,000 heads
// of 102 in one write, and with `silent` it never answers.
import { type AddressInfo, createServer } from 'node:net'

const interim = Buffer.from(`${'HTTP/1.1 102\r\n\r\n'.repeat(16_000)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`)

const server = createServer((socket) => {
  socket.on('error', () => {})
  socket.on('data', () => {
    if (process.argv[2] === 'interim') socket.write(interim)
  })
}).listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  process.send?.(port)
})
process.on('disconnect', () => process.exit())
