import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Owner } from './owner.ts'

/** One request as a parser understood it. Header names are in lower case; every line is its own. */
export type ParsedRequest = Readonly<{
  method: string
  target: string
  headers: readonly (readonly [name: string, value: string])[]
  bodySha256: string
  bodyBytes: number
}>

/** One connection to a backend: the bytes that came, and the whole requests that node:http found in them. */
export type ParsedConnection = { bytes: Buffer; requests: ParsedRequest[] }

export type ParsingBackend = Readonly<{
  url: string
  connections: () => readonly ParsedConnection[]
  clear: () => void
}>

/** As `bodySha256` says it, of a text that stands for bytes. */
export const sha256 = (text: string): string => createHash('sha256').update(text, 'latin1').digest('hex')

/** A backend that keeps what it was sent, raw and read by node:http, and answers every whole request with 200. */
export async function startParsingBackend(owner: Owner): Promise<ParsingBackend> {
  const bySocket = new Map<Socket, ParsedConnection>()
  const server = createServer((request, response) => {
    const hash = createHash('sha256')
    let bodyBytes = 0
    request.on('error', () => {})
    request.on('data', (chunk: Buffer) => {
      hash.update(chunk)
      bodyBytes += chunk.length
    })
    request.on('end', () => {
      const headers: [string, string][] = []
      for (let index = 0; index < request.rawHeaders.length; index += 2)
        headers.push([request.rawHeaders[index]?.toLowerCase() ?? '', request.rawHeaders[index + 1] ?? ''])
      const { method = '', url: target = '' } = request
      bySocket
        .get(request.socket)
        ?.requests.push({ method, target, headers, bodySha256: hash.digest('hex'), bodyBytes })
      response.end('seen')
    })
  })
  // Newer Node answers 431 where older Node drops the lines beyond its limit.
  server.maxHeadersCount = 0
  server.on('connection', (socket) => {
    const connection: ParsedConnection = { bytes: Buffer.alloc(0), requests: [] }
    bySocket.set(socket, connection)
    socket.on('data', (chunk: Buffer) => {
      connection.bytes = Buffer.concat([connection.bytes, chunk])
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    url: `http://127.0.0.1:${port}`,
    connections: () => [...bySocket.values()].filter(({ bytes }) => bytes.length > 0),
    // Kept connections go on after their last whole request, and are read from there.
    clear: () => {
      for (const [socket, connection] of bySocket) {
        if (socket.destroyed) bySocket.delete(socket)
        connection.bytes = Buffer.alloc(0)
        connection.requests = []
      }
    },
  }
}

/** Reads each line of base64 as one connection's bytes, and prints the whole requests that h11 finds in it. */
const h11Program = `
import base64, hashlib, json, sys, h11
for line in sys.stdin:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(base64.b64decode(line))
    requests = []
    head = None
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            requests.append({"error": str(error)})
            break
        if event is h11.NEED_DATA or event is h11.PAUSED and head is None:
            break
        if isinstance(event, h11.Request):
            head, body = event, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            requests.append({
                "method": head.method.decode(),
                "target": head.target.decode("latin-1"),
                "headers": [[n.decode(), v.decode("latin-1")] for n, v in head.headers],
                "bodySha256": hashlib.sha256(body).hexdigest(),
                "bodyBytes": len(body),
            })
            head = None
            connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                break
            connection.start_next_cycle()
        else:
            break
    print(json.dumps(requests))
`

/** The Python that has h11, if there is one: on PATH, or the system's own. */
export function findH11(): string | undefined {
  return ['python3', '/usr/bin/python3'].find((python) => {
    try {
      execFileSync(python, ['-c', 'import h11'], { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  })
}

/** Parses each connection's bytes by h11. */
export function parseByH11(python: string, connections: readonly ParsedConnection[]): readonly ParsedRequest[][] {
  const input = connections.map(({ bytes }) => `${bytes.toString('base64')}\n`).join('')
  const output = execFileSync(python, ['-c', h11Program], { input, maxBuffer: 256 * 1024 * 1024 }).toString('utf8')
  return output
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ParsedRequest[])
}
