import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

/** One request as node:http reads it. */
export type Reading = Readonly<{
  method: string
  target: string
  httpVersion: string
  /** Lines as they came: name, value, name, value, … */
  headers: readonly string[]
  body: string
  /** False where the bytes end, or make no sense, within its body. */
  isWhole: boolean
  /** Another request may follow it. */
  isKeptAlive: boolean
}>

/** A connection's bytes as node:http reads them. */
export type ReferenceReading = Readonly<{
  requests: readonly Reading[]
  /** The end: between two requests, within one, or by bytes that are not a request. */
  end: 'idle' | 'unfinished' | 'refused'
}>

/** The gateway's own limit, so that both refuse the same heads for their size. */
const headBytes = 32 * 1024

type Growing = { -readonly [Key in keyof Reading]: Reading[Key] }

/** A second, independent reading of HTTP/1: node:http, strict, on a connection that is only in memory. */
export async function readByNode(packets: readonly Buffer[]): Promise<ReferenceReading> {
  const requests: Growing[] = []
  let end: ReferenceReading['end'] = 'idle'
  let hasEnded = false
  const server = createServer({ maxHeaderSize: headBytes, requireHostHeader: false, keepAliveTimeout: 0 })
  server.maxHeadersCount = 0
  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const { method = '', url: target = '', httpVersion, rawHeaders: headers } = request
    const reading = { method, target, httpVersion, headers, body: '', isWhole: false, isKeptAlive: false }
    requests.push(reading)
    reading.isKeptAlive = response.shouldKeepAlive
    request.on('error', () => {})
    request.on('data', (chunk: Buffer) => {
      reading.body += chunk.toString('latin1')
    })
    request.on('end', () => {
      reading.isWhole = true
      response.end()
    })
  }
  for (const event of ['request', 'checkContinue', 'checkExpectation']) server.on(event, take)
  server.on('connect', () => {
    end = 'refused'
  })
  server.on('clientError', () => {
    if (end === 'idle') end = hasEnded ? 'unfinished' : 'refused'
  })
  server.on('upgrade', (request: IncomingMessage, connection: Duplex, rest: Buffer) =>
    // Not before the parser that this is called from has returned: the new one may be the same object.
    setImmediate(() => {
      connection.unshift(Buffer.concat([composeWithoutUpgrade(request), rest]))
      server.emit('connection', connection)
    }),
  )
  const connection = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() })
  connection.on('error', () => {})
  server.emit('connection', connection as Socket) // as node documents: any Duplex will do
  for (const packet of packets) {
    connection.push(packet)
    await turns()
  }
  hasEnded = true
  connection.push(null)
  await turns()
  connection.destroy()
  server.close()
  const isCut = requests.some(({ isWhole }) => !isWhole)
  return { requests, end: end === 'idle' && isCut ? 'unfinished' : end }
}

/** A stream passes its bytes on in later turns of the event loop, and a body in others again. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** As if it had not asked for an upgrade (RFC 9110 7.8: a server may ignore it). */
function composeWithoutUpgrade({ method, url, httpVersion, rawHeaders }: IncomingMessage): Buffer {
  const lines = rawHeaders.map((part, index) => (index % 2 === 0 ? `${part}: ` : `${part}\r\n`))
  const kept = lines.filter((_, index) => rawHeaders[index - (index % 2)]?.toLowerCase() !== 'upgrade')
  return Buffer.from(`${method} ${url} HTTP/${httpVersion}\r\n${kept.join('')}\r\n`, 'latin1')
}
