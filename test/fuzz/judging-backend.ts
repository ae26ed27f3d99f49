import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { Owner } from '../support/owner.ts'
import { answerTo } from './hostile-answers.ts'
import type { Arrival } from './judge.ts'

/** Called with an arrival, or with bytes that are not one. */
export type OnArrival = (arrival: Arrival | undefined, bytes: Buffer) => void

/** A backend that reads requests by the letter of RFC 9112 alone, and answers each with a hostile response. */
export async function startJudgingBackend(owner: Owner, onArrival: OnArrival): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let bytes: Buffer = Buffer.alloc(0)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
      for (let read = readRequest(bytes); read !== 'more'; read = readRequest(bytes)) {
        if (read === 'malformed') {
          onArrival(undefined, bytes)
          socket.destroy()
          return
        }
        onArrival(read.arrival, bytes.subarray(0, read.length))
        bytes = bytes.subarray(read.length)
        socket.write(answerTo(numberOf(read.arrival), read.arrival.requestLine.split(' ', 1)[0] ?? ''))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return `http://127.0.0.1:${port}`
}

/** The number in the request's mark, so that a repeated run gets the same answers. */
const numberOf = ({ headers }: Arrival): number =>
  Number(headers.find(([name]) => name.toLowerCase() === 'x-mark')?.[1].slice(1) ?? 0)

type Read = Readonly<{ arrival: Arrival; length: number }> | 'more' | 'malformed'

function readRequest(bytes: Buffer): Read {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return 'more'
  const [requestLine = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const headers = lines.map(
    (line) => /^([^:\s]+):[ \t]?(.*?)[ \t]*$/s.exec(line)?.slice(1) as [string, string] | undefined,
  )
  if (headers.some((pair) => pair === undefined)) return 'malformed'
  const arrival = { requestLine, headers: headers.filter((pair) => pair !== undefined) }
  const find = (wanted: string) => arrival.headers.find(([name]) => name.toLowerCase() === wanted)?.[1]
  const bodyFrom = end + 4
  const length = find('content-length')
  if (find('transfer-encoding') !== undefined) {
    const bodyEnd = readChunks(bytes, bodyFrom)
    return typeof bodyEnd === 'number' ? { arrival, length: bodyEnd } : bodyEnd
  }
  if (length !== undefined && !/^\d+$/.test(length)) return 'malformed'
  const whole = bodyFrom + Number(length ?? 0)
  return bytes.length < whole ? 'more' : { arrival, length: whole }
}

/** The end of a chunked body without trailers. */
function readChunks(bytes: Buffer, from: number): number | 'more' | 'malformed' {
  for (let position = from; ; ) {
    const lineEnd = bytes.indexOf('\r\n', position)
    if (lineEnd < 0) return 'more'
    const size = bytes.toString('latin1', position, lineEnd)
    if (!/^[0-9a-f]+$/i.test(size)) return 'malformed'
    const chunkEnd = lineEnd + 2 + Number.parseInt(size, 16)
    if (bytes.length < chunkEnd + 2) return 'more'
    if (bytes.toString('latin1', chunkEnd, chunkEnd + 2) !== '\r\n') return 'malformed'
    position = chunkEnd + 2
    if (Number.parseInt(size, 16) === 0) return position
  }
}
