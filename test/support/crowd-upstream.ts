import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createdEvent } from './event-streams.ts'
import type { Owner } from './owner.ts'
import { chunkedHead, toChunk } from './streams.ts'

/** An upstream of very many streams, which it begins and then leaves to the test. */
export type CrowdUpstream = Readonly<{
  url: string
  /** The open ones. */
  streams: ReadonlySet<Socket>
  /** The time at which the last of them was closed, by `performance.now`. */
  lastClosedAtMs: () => number
}>

const streamStart = Buffer.concat([Buffer.from(chunkedHead), toChunk(createdEvent)])

/** The head and one event, with which every agent begins. */
export const beginStream = (socket: Socket): void => void socket.write(streamStart)

/** Answers each request, once its body is whole, by beginning a stream. */
export async function startCrowdUpstream(owner: Owner, begin = beginStream): Promise<CrowdUpstream> {
  const streams = new Set<Socket>()
  let lastClosedAtMs = 0
  const server = createServer((socket) => {
    let request = ''
    const onData = (chunk: Buffer): void => {
      request += chunk.toString('latin1')
      if (!isWhole(request)) return
      request = ''
      streams.add(socket)
      begin(socket)
    }
    socket.on('error', () => {})
    socket.on('data', onData)
    socket.on('close', () => {
      streams.delete(socket)
      lastClosedAtMs = performance.now()
    })
  }).listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
  await once(server, 'listening')
  owner.teardown(() => {
    server.close()
    for (const socket of streams) socket.destroy()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, streams, lastClosedAtMs: () => lastClosedAtMs }
}

function isWhole(request: string): boolean {
  const headEnd = request.indexOf('\r\n\r\n')
  if (headEnd < 0) return false
  const [, length = '0'] = /^content-length: (\d+)\r$/im.exec(request.slice(0, headEnd + 2)) ?? []
  return request.length >= headEnd + 4 + Number(length)
}
