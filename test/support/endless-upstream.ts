import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'
import { chatChunk, createdEvent, deltaEvent } from './event-streams.ts'
import { startFairClock } from './fair-clock.ts'
import type { Owner } from './owner.ts'

/** One request at the upstream. */
export type EndlessRequest = {
  path: string
  receivedBytes: number
  /** Whether the request was received to its last byte. */
  isWhole: boolean
  isClosed: boolean
  /** For how long the connection has taken nothing, by a fair clock. */
  stalledForMs: () => number
}

/** An upstream that answers without end, until its connection closes. */
export type EndlessUpstream = Readonly<{ url: string; requests: () => readonly EndlessRequest[] }>

type Pace = Readonly<{ everyMs: number; burst: number }>

/**
 * Event streams get a burst of events, and other responses a kilobyte, by default every 20 ms. Uploads and `/silent`
 * are never answered. WebSockets get a message each time.
 */
export async function startEndlessUpstream(
  owner: Owner,
  { everyMs, burst }: Pace = { everyMs: 20, burst: 1 },
): Promise<EndlessUpstream> {
  const requests: EndlessRequest[] = []
  const passedMs = startFairClock(owner)
  const note = (message: IncomingMessage): EndlessRequest => {
    const request = {
      path: message.url ?? '',
      receivedBytes: 0,
      isWhole: false,
      isClosed: false,
      stalledForMs: () => 0,
    }
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
    const again = (work: () => void): void => repeat(message, everyMs, work)
    if (path.endsWith('/responses')) speak(response, createdEvent, deltaEvent, burst, again)
    else if (path.endsWith('/completions')) speak(response, chatChunk, () => chatChunk, burst, again)
    else if (path.includes('flood')) flood(response, request, passedMs)
    else if (message.method === 'GET' && !path.includes('silent')) download(response, again)
  })
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket, message) => {
    note(message)
    repeat(message, everyMs, () => socket.send('tick'))
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

type Again = (work: () => void) => void

function speak(
  response: ServerResponse,
  first: string,
  next: (sequence: number) => string,
  burst: number,
  again: Again,
): void {
  let sequence = 0
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(first)
  again(() => {
    // A reader that is behind gets no more until it has caught up.
    if (response.writableNeedDrain) return
    let events = ''
    for (let count = 0; count < burst; count += 1) {
      sequence += 1
      events += next(sequence)
    }
    response.write(events)
  })
}

function download(response: ServerResponse, again: Again): void {
  response.writeHead(200, { 'content-length': 1_000_000_000 })
  again(() => response.write('x'.repeat(1_024)))
}

/** Writes as fast as the reader takes. */
function flood(response: ServerResponse, request: EndlessRequest, passedMs: () => number): void {
  response.writeHead(200, { 'content-length': 1_000_000_000 })
  let filledAtMs = 0
  const fill = (): void => {
    while (response.write('x'.repeat(65_536)));
    filledAtMs = passedMs()
  }
  request.stalledForMs = () => passedMs() - filledAtMs
  response.on('drain', fill)
  fill()
}

function repeat(message: IncomingMessage, everyMs: number, work: () => void): void {
  const timer = setInterval(work, everyMs)
  message.socket.on('close', () => clearInterval(timer))
}
