import { connect, type Socket } from 'node:net'
import { type ParsedEvent, parseEvents } from './event-streams.ts'
import type { Owner } from './owner.ts'

/** One of very many clients, on a connection of its own: only a plain socket is cheap enough. */
export type CrowdClient = Readonly<{
  socket: Socket
  /** Everything that came so far, head and framing included. */
  text: () => string
}>

export type CrowdOptions = Readonly<{
  origin: string
  path: string
  headers: Readonly<Record<string, string>>
  count: number
  /** Called with each chunk after the first event. */
  hear?: (chunk: string) => void
}>

/** Connections that are opened at a time: enough to be fast, and few enough for the gateway to accept them at once. */
const parallel = 50

/** About the size of a short conversation. */
const body = JSON.stringify({ model: 'any', stream: true, input: 'x'.repeat(800) })

/** Opens streams as the SDKs do, and resolves when each has had its first event. */
export async function openCrowd(owner: Owner, options: CrowdOptions): Promise<readonly CrowdClient[]> {
  const request = composeRequest(options)
  const clients: CrowdClient[] = []
  owner.teardown(() => leave(clients))
  let opened = 0
  const openSome = async (): Promise<void> => {
    while (opened < options.count) {
      opened += 1
      clients.push(await openOne(options, request))
    }
  }
  await Promise.all(Array.from({ length: parallel }, openSome))
  return clients
}

export function leave(clients: readonly CrowdClient[]): void {
  for (const { socket } of clients) socket.destroy()
}

function openOne({ origin, hear }: CrowdOptions, request: string): Promise<CrowdClient> {
  const { hostname, port } = new URL(origin)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    let text = ''
    let isOpen = false
    const client: CrowdClient = { socket, text: () => text }
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`closed before the first event: ${text}`)))
    socket.on('data', (chunk) => {
      const piece = chunk.toString('latin1')
      if (isOpen && hear) {
        hear(piece)
        return
      }
      text += piece
      isOpen = text.includes('"sequence_number"')
      if (isOpen) resolve(client)
      else if (/^HTTP\/1\.1 [^2]/.test(text)) reject(new Error(`no stream: ${text}`))
    })
    socket.write(request)
  })
}

/** A streaming call, as an SDK sends it. */
export const composeRequest = ({ path, headers }: Pick<CrowdOptions, 'path' | 'headers'>): string =>
  [
    `POST ${path} HTTP/1.1`,
    'host: api.example.com',
    'accept: application/json',
    'content-type: application/json',
    'user-agent: OpenAI/JS 6.49.0',
    'x-stainless-lang: js',
    'x-stainless-package-version: 6.49.0',
    'x-stainless-os: Linux',
    'x-stainless-arch: x64',
    'x-stainless-runtime: node',
    'x-stainless-runtime-version: v20.19.0',
    'x-stainless-retry-count: 0',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n')

/** Whether the answer of a client came to its clean end. */
export const hasEnded = ({ text }: CrowdClient): boolean => text().endsWith('\r\n0\r\n\r\n')

/** The events of an answer, without its head and its chunk framing. */
export function readEvents({ text }: CrowdClient): readonly ParsedEvent[] {
  let rest = text().slice(text().indexOf('\r\n\r\n') + 4)
  let events = ''
  for (;;) {
    const sizeEnd = rest.indexOf('\r\n')
    const size = Number.parseInt(rest, 16)
    if (sizeEnd < 0 || !(size > 0)) return parseEvents(Buffer.from(events, 'latin1'))
    events += rest.slice(sizeEnd + 2, sizeEnd + 2 + size)
    rest = rest.slice(sizeEnd + 2 + size + 2)
  }
}
