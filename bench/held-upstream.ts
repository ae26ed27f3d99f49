// The slow backend of bench:held, in a process of its own. Its argument names the way in which it treats connections.
import { type AddressInfo, createServer, type Socket } from 'node:net'

const [mode = 'silent'] = process.argv.slice(2)
const large = Buffer.alloc(64 * 1024, 'x')

const ways: Readonly<Record<string, (socket: Socket) => void>> = {
  /** Reads the request, and says nothing. */
  silent: (socket) => void socket.resume(),
  /** Reads nothing. */
  deaf: (socket) => void socket.pause(),
  /** Answers with more than any client takes. */
  large: (socket) =>
    void socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n')
      const pour = (): void => {
        while (socket.write(large));
      }
      socket.on('drain', pour)
      pour()
      socket.resume()
    }),
  /** Begins an event that has no end. */
  event: (socket) =>
    void socket.once('data', () => {
      socket.write(
        'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"type":"response.created"}\n\ndata: ',
      )
      for (let part = 0; part < 16; part++) socket.write(large)
      socket.resume()
    }),
}

const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
  socket.on('error', () => {})
  ways[mode]?.(socket)
  if (mode !== 'deaf') socket.resume()
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => {
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  process.send?.(port)
})
process.on('disconnect', () => process.exit())
