import { Agent, createServer, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Owner } from '../support/owner.ts'

/** A yes that went on to the gateway whole and in time, as the decision point had said it. */
type PassedYes = Readonly<{ document: string; atMs: number }>

export type LinkFault = 'slow' | 'garbled'

/** A link between a gateway and its decision point. */
export type FaultyLink = Readonly<{
  url: string
  passed: readonly PassedYes[]
  /** From now on; without it answers pass as they are. */
  spoil: (fault: LinkFault | undefined) => void
}>

const slowMs = 500
const dripMs = 20

type Answer = Readonly<{ status: number; body: Buffer }>

const json = { 'content-type': 'application/json' }

/** Every one of them holds the decision point's own bytes, and none is a plain yes. */
const garblings: readonly ((response: ServerResponse, answer: Answer) => void)[] = [
  (response, { body }) =>
    void response.writeHead(200, { ...json, 'content-length': body.length + 9 }).write(body, () => response.destroy()),
  (response, { body }) => void response.writeHead(200, json).end(body.subarray(0, -1)),
  (response, { body }) => void response.writeHead(200, json).end(Buffer.concat([body, body])),
  (response, { body }) =>
    void response.writeHead(200, json).end(body.map((byte, at) => (at === 1 ? byte ^ 0x20 : byte))),
  (response, { body }) => void response.writeHead(200, json).end(String(body).replace(/true|false/, '"true"')),
  (response, { body }) => void response.writeHead(200, json).end(`${String(body).slice(0, -1)},"decision":true}`),
  (response, { body }) => void response.writeHead(202, json).end(body),
  (response, { body }) => void response.writeHead(500, json).end(body),
  (response, { body }) => void response.writeHead(200, { 'content-type': 'text/html' }).end(body),
  (response, { body }) => void response.socket?.end(Buffer.concat([Buffer.from('\0HTTP/1.1 2OO OK\r\n\r\n'), body])),
]

function sendSlowly(response: ServerResponse, { status, body }: Answer): void {
  response.writeHead(status, { ...json, 'content-length': body.length })
  let sent = 0
  const drip = setInterval(() => {
    if (sent < body.length && !response.destroyed) response.write(body.subarray(sent, ++sent))
    else {
      // The gateway may have left before the answer came.
      clearInterval(drip)
      response.end()
    }
  }, dripMs)
}

const slownesses: readonly ((response: ServerResponse, answer: Answer) => void)[] = [
  (response, { status, body }) => {
    const timer = setTimeout(() => response.writeHead(status, json).end(body), slowMs)
    response.on('close', () => clearTimeout(timer))
  },
  sendSlowly,
]

export async function startFaultyLink(owner: Owner, decisionPoint: string): Promise<FaultyLink> {
  const passed: PassedYes[] = []
  let fault: LinkFault | undefined
  let spoiled = 0
  const agent = new Agent({ keepAlive: true })
  owner.teardown(() => agent.destroy())
  const base = new URL(decisionPoint)
  const pass = (response: ServerResponse, document: string, { status, body }: Answer): void => {
    if (status === 200 && JSON.parse(String(body)).decision === true) passed.push({ document, atMs: performance.now() })
    response.writeHead(status, json).end(body)
  }
  const answer = (response: ServerResponse, document: string, whole: Answer): void => {
    if (!fault) {
      pass(response, document, whole)
      return
    }
    const ways = fault === 'slow' ? slownesses : garblings
    ways[spoiled++ % ways.length]?.(response, whole)
  }
  const server = createServer(async (asked, response) => {
    response.on('error', () => undefined)
    try {
      const question = await readAll(asked)
      const { host: _, connection: __, ...headers } = asked.headers
      const url = new URL(asked.url ?? '', base.origin)
      const further = request(url, { method: 'POST', headers, agent }, async (said) => {
        const body = await readAll(said).catch(() => undefined)
        if (!body) response.destroy()
        else answer(response, JSON.parse(String(question)).resource.id, { status: said.statusCode ?? 0, body })
      })
      further.on('error', () => response.destroy())
      further.end(question)
    } catch {
      response.destroy()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    url: `http://127.0.0.1:${port}${base.pathname.replace(/\/$/, '')}`,
    passed,
    spoil: (other) => {
      fault = other
    },
  }
}

async function readAll(parts: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of parts) chunks.push(chunk)
  return Buffer.concat(chunks)
}
