import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { obeyDemoAnswer } from './obey-demo-answer.ts'
import { BadInstruction, sendJson } from './prepare-answer.ts'
import { type IncomingBody, noBody, receiveBody } from './receive-body.ts'
import type { EndExchange, HeaderPairs, Journal } from './record-requests.ts'
import { type RunningServer, startServer } from './start-server.ts'

export type BackendRequest = Readonly<{
  request: IncomingMessage
  method: string
  target: string
  path: string
  query: URLSearchParams
  headers: HeaderPairs
  body: IncomingBody
  endExchange: EndExchange
}>

export type AnswerRequest = (arrival: BackendRequest, response: ServerResponse) => Promise<void> | undefined

export type TakeUpgrade = (arrival: BackendRequest, socket: Duplex, head: Buffer) => boolean

export type Backend = Readonly<{ name: string; answer: AnswerRequest; takeUpgrade?: TakeUpgrade }>

export function serveBackend(backend: Backend, journal: Journal, host: string): Promise<RunningServer> {
  const server = createServer({ maxHeaderSize: 256 * 1024, requireHostHeader: false, keepAliveTimeout: 0 })
  server.requestTimeout = 0
  server.headersTimeout = 0
  server.maxHeadersCount = 0
  const receiving = new WeakSet<Duplex>()

  function receive(request: IncomingMessage): BackendRequest {
    const arrival = openArrival(backend.name, request, journal)
    receiving.add(request.socket)
    request.once('close', () => receiving.delete(request.socket))
    return arrival
  }

  function handle(request: IncomingMessage, response: ServerResponse): void {
    const arrival = receive(request)
    response.once('close', () => {
      if (!response.writableFinished) return arrival.endExchange({ aborted: true })
      // A response may end before its request's body; the exchange ends with the later one.
      arrival.body.arrived.then((whole) => arrival.endExchange({ aborted: !whole }), reportFailure(response))
    })
    respond(backend.answer, arrival, response).catch(reportFailure(response))
  }

  function handleDetached(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const arrival = receive(request)
    socket.on('error', () => undefined)
    const isFree = request.headers['x-demo-answer'] === undefined
    if (isFree && backend.takeUpgrade?.(arrival, socket, head)) return
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    // node:http types the socket of an upgrade as Duplex, but passes a net.Socket.
    response.assignSocket(socket as Socket)
    response.once('finish', () => socket.end())
    socket.once('close', () => arrival.endExchange({ aborted: !response.writableFinished }))
    respond(backend.answer, arrival, response).catch(reportFailure(response))
  }

  server.on('request', handle)
  server.on('checkExpectation', handle)
  server.on('connect', handleDetached)
  if (backend.takeUpgrade !== undefined) server.on('upgrade', handleDetached)
  server.on('clientError', (error: Error & { rawPacket?: Buffer }, socket) => {
    if (error.rawPacket !== undefined && !receiving.has(socket)) {
      const requestLine = error.rawPacket.toString('latin1').split('\r\n', 1)[0] ?? ''
      journal.open({ backend: backend.name, requestLine, headers: [], body: noBody })({ aborted: false })
    }
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')
    else socket.destroy()
  })
  return startServer(server, host)
}

function openArrival(backend: string, request: IncomingMessage, journal: Journal): BackendRequest {
  const { method = '', url: target = '', rawHeaders } = request
  const headers = pairHeaders(rawHeaders)
  const body = receiveBody(request)
  const requestLine = `${method} ${target} HTTP/${request.httpVersion}`
  const endExchange = journal.open({ backend, requestLine, headers, body })
  const mark = target.indexOf('?')
  const path = mark < 0 ? target : target.slice(0, mark)
  const query = new URLSearchParams(mark < 0 ? '' : target.slice(mark + 1))
  return { request, method, target, path, query, headers, body, endExchange }
}

function pairHeaders(rawHeaders: readonly string[]): HeaderPairs {
  const pairs: [string, string][] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    pairs.push([rawHeaders[index] ?? '', rawHeaders[index + 1] ?? ''])
  }
  return pairs
}

async function respond(answer: AnswerRequest, arrival: BackendRequest, response: ServerResponse): Promise<void> {
  const wanted = arrival.request.headers['x-demo-answer']
  if (wanted !== undefined) return obeyDemoAnswer(String(wanted), arrival.body, response)
  return answer(arrival, response) ?? echoArrival(arrival, response)
}

async function echoArrival({ method, target, headers, body }: BackendRequest, response: ServerResponse): Promise<void> {
  const whole = await body.arrived
  if (whole) sendJson(response, 200, { method, target, headers, bodySha256: body.sha256(), bodyBytes: body.bytes() })
}

function reportFailure(response: ServerResponse): (error: unknown) => void {
  return (error) => {
    if (response.headersSent) return void response.destroy()
    const isTheirs = error instanceof BadInstruction
    const message = error instanceof Error ? error.message : String(error)
    const type = isTheirs ? 'invalid_request_error' : 'server_error'
    sendJson(response, isTheirs ? 400 : 500, { error: { message, type, code: isTheirs ? 'bad_instruction' : null } })
  }
}
