import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { Test } from 'tap'
import {
  type RawUpstream,
  startRawUpstream,
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
  until,
} from './gateway.ts'

/** An upstream's answer to a request, once its head is in. */
export type SayStream = (socket: Socket, head: string) => void

export type StreamPair = Readonly<{
  upstream: RawUpstream
  gateway: TestGateway
  /** Sends a request of its own, which the upstream answers as it is told here. */
  open: (path: string, say: SayStream) => Promise<ReadAnswer>
  /** Has a request answered that the test sends itself, with the `x-request-id` that is given back. */
  expect: (say: SayStream) => string
}>

/** The paths of the model API, public. */
export const modelRoutes = [
  { id: 'responses', match: { path: '/agent/:id/responses' }, surface: 'model', access: 'public', upstream: 'agents' },
  {
    id: 'chat',
    match: { path: '/agent/:id/chat/completions' },
    surface: 'model',
    access: 'public',
    upstream: 'agents',
  },
]

export const responsesPath = '/agent/1/responses'
export const chatPath = '/agent/1/chat/completions'

/** A gateway and an upstream that says what each test tells it to. */
export async function startStreamPair(
  t: Test,
  { settings = {}, routes = modelRoutes }: TestGatewayOptions = {},
): Promise<StreamPair> {
  const answers = new Map<string, SayStream>()
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    // From the begin of a line: a search from within one takes quadratic time.
    const [head = ''] = /^[^\n]* HTTP\/1\.1\r\n(?:[^\r\n]+\r\n)+\r\n[^\r\n]*(?![\s\S])/m.exec(soFar) ?? []
    const [, key = ''] = /\nx-request-id: (\S+)/i.exec(head) ?? []
    const say = answers.get(key)
    answers.delete(key)
    say?.(socket, head)
  })
  const gateway = await startTestGateway(t, { routes, upstreams: { agents: { url: upstream.url } }, settings })
  let count = 0
  const expect: StreamPair['expect'] = (say) => {
    const key = `stream-${count++}`
    answers.set(key, say)
    return key
  }
  const open: StreamPair['open'] = (path, say) => readAnswer(gateway.public + path, { 'x-request-id': expect(say) })
  return { upstream, gateway, expect, open }
}

/** An answer that is being read. */
export type ReadAnswer = Readonly<{
  status: number
  headers: IncomingHttpHeaders
  /** The text so far, without its framing. */
  text: () => string
  body: () => Buffer
  /** Resolves with the whole body at a clean end, rejects at a broken one. */
  whole: () => Promise<Buffer>
  hasEnded: () => boolean
  pause: () => void
  resume: () => void
  leave: () => void
}>

/** Sends a POST on a connection of its own and resolves when the head of its answer is in. */
export function readAnswer(url: string, headers: Record<string, string> = {}, body = ''): Promise<ReadAnswer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { method: 'POST', headers, agent: false }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      const read = (): Buffer => Buffer.concat(chunks)
      const ended = new Promise<Buffer>((end, fail) => {
        response.on('end', () => end(read()))
        response.on('error', fail)
      })
      ended.catch(() => undefined)
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text: () => read().toString(),
        body: read,
        whole: () => ended,
        hasEnded: () => response.readableEnded,
        pause: () => void response.pause(),
        resume: () => void response.resume(),
        leave: () => void request.destroy(),
      })
    })
    request.on('error', reject)
    request.end(body)
  })
}

/** Opens again for as long as the gateway cannot prove its facts, which a busy machine makes it say now and then. */
export async function readPermitted(open: () => Promise<ReadAnswer>): Promise<ReadAnswer> {
  let answer: ReadAnswer | undefined
  await until(async () => {
    answer?.leave()
    answer = await open()
    return answer.status !== 503
  }, 'facts in time')
  if (answer?.status !== 200) throw new Error(`refused with ${answer?.status}`)
  return answer
}

export const streamHead = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n'

/** A head for chunks, and the bytes as chunks: their ends are the upstream's, whatever the network makes of them. */
export const chunkedHead = `${streamHead}transfer-encoding: chunked\r\n\r\n`
export const lastChunk = '0\r\n\r\n'
export const toChunk = (bytes: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${Buffer.byteLength(bytes).toString(16)}\r\n`), Buffer.from(bytes), Buffer.from('\r\n')])
