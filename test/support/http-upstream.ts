import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Owner } from './owner.ts'

/** An upstream on node:http that remembers which requests came, by their `x-request-id`. */
export type HttpUpstream = Readonly<{ url: string; ids: () => readonly string[] }>

export type AnswerHttp = (request: IncomingMessage, response: ServerResponse) => void

const answerOk: AnswerHttp = (request, response) => {
  request.resume().on('end', () => response.end('ok'))
}

/** Listens on a free port; whatever is open breaks with the owner. */
export async function startHttpUpstream(owner: Owner, answer: AnswerHttp = answerOk): Promise<HttpUpstream> {
  const ids: string[] = []
  const server = createServer((request, response) => {
    ids.push(String(request.headers['x-request-id']))
    request.on('error', () => {})
    response.on('error', () => {})
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `http://127.0.0.1:${port}`, ids: () => ids }
}
