import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Owner } from './owner.ts'

type Evaluation = Readonly<{
  subject: Readonly<{ type: string; id: string; properties: Readonly<Record<string, unknown>> }>
  action: Readonly<{ name: string }>
  resource: Readonly<{ type: string; id: string; properties?: Readonly<Record<string, unknown>> }>
  context: Readonly<Record<string, unknown>>
}>

export type AskedPdp = Readonly<{
  url: string
  headers: IncomingHttpHeaders
  text: string
  evaluations: readonly Evaluation[]
}>

/** A text is sent as it is, and a function has the response to itself. */
type PdpAnswer = boolean | string | ((response: ServerResponse) => void)

type Describe = (url: string, response: ServerResponse) => void

type Decide = (evaluation: Evaluation, asked: AskedPdp) => PdpAnswer

export type Pdp = Readonly<{
  url: string
  port: number
  asked: readonly AskedPdp[]
  open: Readonly<{ now: number; most: number }>
  /** From now on; without it every action is permitted. */
  decide: (decide: Decide) => void
  headers: (headers: Readonly<Record<string, string>>) => void
  /** From now on; without it metadata are 404. */
  describe: (describe: Describe) => void
  stop: () => Promise<void>
  start: () => Promise<void>
}>

/** A decision point on node:http, which answers as the test says. */
export async function startPdp(owner: Owner, decideFirst: Decide = () => true): Promise<Pdp> {
  const asked: AskedPdp[] = []
  const open = { now: 0, most: 0 }
  let decide = decideFirst
  let describe: Describe = (_, response) => void response.writeHead(404).end()
  let headers: Readonly<Record<string, string>> = {}
  const server = createServer(async (request, response) => {
    open.now += 1
    open.most = Math.max(open.most, open.now)
    response.on('close', () => (open.now -= 1))
    response.on('error', () => undefined)
    if (request.method === 'GET') {
      describe(request.url ?? '', response)
      return
    }
    let text = ''
    try {
      for await (const part of request) text += String(part)
    } catch {
      return
    }
    const body = JSON.parse(text)
    const evaluations: readonly Evaluation[] = body.evaluations ?? [body]
    const question = { url: request.url ?? '', headers: request.headers, text, evaluations }
    asked.push(question)
    const answers = evaluations.map((evaluation) => decide(evaluation, question))
    const special = answers.find((answer) => typeof answer !== 'boolean')
    if (typeof special === 'function') {
      special(response)
      return
    }
    response.writeHead(200, { 'content-type': 'application/json', ...headers })
    const decisions = answers.map((decision) => ({ decision, context: { reason: 'canary-of-the-context' } }))
    response.end(special ?? JSON.stringify(body.evaluations ? { evaluations: decisions } : decisions[0]))
  })
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  await listen(0)
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  owner.teardown(stop)
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    asked,
    open,
    decide: (other) => {
      decide = other
    },
    headers: (others) => {
      headers = others
    },
    describe: (other) => {
      describe = other
    },
    stop,
    start: () => listen(port),
  }
}
