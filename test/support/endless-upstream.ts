import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'
import { chatChunk, createdEvent, deltaEvent } from './event-streams.ts'
import type { Owner } from './owner.ts'

/** One request at the upstream. */
export type EndlessRequest = {
  path: string
  receivedBytes: number
  /** Whether the request was received to its last byte. */
  isWhole: boolean
  isClosed: boolean
  /** Whether the connection has taken nothing for a while. */
  isStalled: boolean
}

/** An upstream that answers without end, until its connection closes. */
export type EndlessUpstream = Readonly<{ url: string; requests: () => readonly EndlessRequest[] }>

const everyMs = 20

/**
 * Event streams get an event, and other responses a kilobyte, every 20 ms. Uploads and `/silent` are never answered.
 * WebSockets get a message every 20 ms.
 */
export async function startEndlessUpstream(owner: Owner): Promise<EndlessUpstream> {
  const requests: EndlessRequest[] = []
  const note = (message: IncomingMessage): EndlessRequest => {
    const request = { path: message.url ?? '', receivedBytes: 0, isWhole: false, isClosed: false, isStalled: false }
    requests.push(request)
    message.on('data', (chunk: Buffer) => {
      request.receivedBytes += chunk.length
    })
    message.on('end', () => {
      request.isWhole = true
    })
    message.socket.on('close', () => {
      request.isClosed = true
    })
    return request
  }
  const server = createServer((message, response) => {
    const request = note(message)
    const { path } = request
    if (path.endsWith('/responses')) speak(response, createdEvent, deltaEvent)
    else if (path.endsWith('/completions')) speak(response, chatChunk, () => chatChunk)
    else if (path.includes('flood')) flood(response, request)
    else if (message.method === 'GET' && !path.includes('silent')) download(response)
  })
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket, message) => {
    note(message)
    repeat(message, () => socket.send('tick'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  owner.teardown(() => {
    sockets.close()
    for (const socket of sockets.clients) socket.terminate()
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, requests: () => requests }
}

function speak(response: ServerResponse, first: string, next: (sequence: number) => string): void {
  let sequence = 0
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(first)
  repeat(response.req, () => {
    sequence += 1
    response.write(next(sequence))
  })
}

function download(response: ServerResponse): void {
  response.writeHead(200, { 'content-length': 1_000_000_000 })
  repeat(response.req, () => response.write('x'.repeat(1_024)))
}

/** As fast as it is taken. */
function flood(response: ServerResponse, request: EndlessRequest): void {
  response.writeHead(200, { 'content-length': 1_000_000_000 })
  let stall: NodeJS.Timeout | undefined
  const fill = (): void => {
    clearTimeout(stall)
    request.isStalled = false
    while (response.write('x'.repeat(65_536)));
    stall = setTimeout(() => {
      request.isStalled = true
    }, 300)
  }
  response.on('drain', fill)
  response.on('close', () => clearTimeout(stall))
  fill()
}

function repeat(message: IncomingMessage, work: () => void): void {
  const timer = setInterval(work, everyMs)
  message.socket.on('close', () => clearInterval(timer))
}
