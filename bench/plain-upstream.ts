// A backend that says yes to everything at once, in a process of its own: a bench that is busy delays none of its answers.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const server = createServer((request, response) => {
  request.resume()
  response.end()
}).listen(0, '127.0.0.1')
await once(server, 'listening')
process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`) // a TCP listener's address is never a string
process.on('disconnect', () => process.exit())
