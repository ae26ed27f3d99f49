import { type Agent, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { startFairClock } from './fair-clock.ts'
import { withOwner } from './owner.ts'

/** A request as a test writes it; header values in an array become lines of their own. */
export type Call = Readonly<{
  method?: string
  path: string
  headers?: Readonly<Record<string, string | string[]>>
  body?: string | Buffer
  /** The address of the client, in place of the usual one. */
  localAddress?: string
  /** An agent that keeps connections, for many requests: to open one costs more than a request. */
  agent?: Agent
}>

export type Answer = Readonly<{
  status: number
  headers: Readonly<Record<string, string | string[] | undefined>>
  rawHeaders: readonly string[]
  text: string
  /** Throws for a body that is not JSON. */
  json: () => JsonValue
}>

/** Parsed JSON of a shape that the test knows: reading a member that is not there is a test that fails. */
// biome-ignore lint/suspicious/noExplicitAny: assertions walk freely through answers of many shapes
export type JsonValue = any

/**
 * One request, on a connection of its own unless it has an agent. The path goes out as it is: no client-side
 * normalisation.
 */
export function call(origin: string, wanted: Call): Promise<Answer> {
  const { method = 'GET', path, headers = {}, body, localAddress, agent = false } = wanted
  const { hostname, port } = new URL(origin)
  return new Promise((resolve, reject) => {
    const isFramed = body === undefined || 'transfer-encoding' in headers
    const length = isFramed ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const request = httpRequest(
      { host: hostname, port, method, path, headers: { ...length, ...headers }, localAddress, agent },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8')
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            rawHeaders: response.rawHeaders,
            text,
            json: () => JSON.parse(text),
          })
        })
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}

/**
 * Sends bytes as they are; resolves with what came back, once the peer closed or `silenceMs` passed without a byte. The fair
 * clock tells: after a stall of this process the bytes are here, and have not been read.
 */
export function callRaw(origin: string, bytes: string | Buffer, silenceMs = 400): Promise<string> {
  const { hostname, port } = new URL(origin)
  return withOwner(
    (owner) =>
      new Promise((resolve) => {
        const socket = connect(Number(port), hostname)
        const chunks: Buffer[] = []
        const finish = (): void => {
          socket.destroy()
          resolve(Buffer.concat(chunks).toString('latin1'))
        }
        const passedMs = startFairClock(owner)
        let lastMs = 0
        const look = (): void => {
          // A busy machine takes its time for the first byte.
          if (passedMs() - lastMs >= (chunks.length > 0 ? silenceMs : Math.max(5_000, silenceMs))) finish()
        }
        const timer = setInterval(look, 20)
        owner.teardown(() => clearInterval(timer))
        socket.on('data', (chunk) => {
          chunks.push(chunk)
          lastMs = passedMs()
        })
        socket.on('error', () => {})
        socket.on('close', finish)
        socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
      }),
  )
}
