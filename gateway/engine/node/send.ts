import type { Client, Dispatcher } from 'undici'
import { type Send, type UpstreamAnswer, UpstreamError, type UpstreamRequest } from '../engine.ts'
import type { Names } from '../names.ts'
import { type Connections, createConnections } from './connections.ts'
import { NodeRequestBody } from './request-body.ts'
import { ResponseHandler } from './response-handler.ts'

/** What sends, and how many connections it has open for that, by their origins. */
type Sender = Readonly<{
  send: Send
  countConnections: () => ReadonlyMap<string, number>
  close: () => Promise<void>
}>

/** Sends each request over a connection that it has to itself until its answer is whole. */
export function createSender(maxConnections: number, names: Names): Sender {
  const connections = createConnections(maxConnections, names)
  const { count, close } = connections
  return { send: (request) => exchange(connections, request), countConnections: count, close }
}

function exchange(connections: Connections, request: UpstreamRequest): Promise<UpstreamAnswer> {
  const client = connections.take(request, request.timeouts.connectMs, request.isFreshConnection)
  if (!client) return Promise.reject(new UpstreamError('crowded'))
  const hasServed = connections.hasServed(client)
  return new Promise((resolve, rejectAs) => {
    const reject = (error: UpstreamError): void => rejectAs(hasServed ? asStale(error) : error)
    const handshake = request.asksForWebSocket ? request.headers : undefined
    const settle = { resolve, reject }
    const handler = new ResponseHandler(request.timeouts.idleMs, handshake, settle, giveBack(connections, client))
    request.onCancellable(handler.cancel)
    const options: Dispatcher.DispatchOptions & Readonly<{ servername: string | null }> = {
      path: request.path,
      method: request.method as Dispatcher.HttpMethod, // receive/ lets only standard methods through
      headers: [...request.headers, ...(request.sealed?.headers ?? [])],
      body:
        request.body instanceof NodeRequestBody
          ? request.body.take(request.bodyLimitBytes, request.timeouts.bodyIdleMs)
          : null,
      headersTimeout: request.timeouts.firstByteMs,
      // The handler's own: how long a body may be silent is known when its head is.
      bodyTimeout: 0,
      // Else undici takes it from `Host`, and breaks a connection whose next request has another one.
      servername: connections.serverNameOf(client),
      ...(request.asksForWebSocket && { upgrade: 'websocket' }),
    }
    try {
      client.dispatch(options, handler)
    } catch (error) {
      connections.drop(client)
      reject(new UpstreamError('broken', { cause: error }))
    }
  })
}

/** Made here, out of sight of the request: an answer may last for hours, and holds what its closures see. */
const giveBack =
  ({ keep, drop }: Connections, client: Client) =>
  (isWhole: boolean, peerAddress: string | undefined): void =>
    isWhole ? keep(client, peerAddress) : drop(client)

const asStale = (error: UpstreamError): UpstreamError =>
  error.fault === 'unanswered' ? new UpstreamError('stale', { cause: error }) : error
