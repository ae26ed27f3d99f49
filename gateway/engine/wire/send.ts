import { type Send, type UpstreamAnswer, UpstreamError } from '../engine.ts'
import type { Names } from '../names.ts'
import { createPool } from './pool.ts'

/** What sends, and how many connections it has open for that, by their origins. */
type Sender = Readonly<{
  send: Send
  countConnections: () => ReadonlyMap<string, number>
  close: () => Promise<void>
}>

/** Sends each request over a connection that it has to itself until its answer is whole. */
export function createSender(maxConnections: number, names: Names): Sender {
  const pool = createPool(maxConnections, names)
  const send: Send = (request) =>
    new Promise<UpstreamAnswer>((resolve, reject) => {
      const needs = { isFresh: request.isFreshConnection, isForUpgrade: request.asksForWebSocket }
      const connection = pool.take(request, needs)
      if (!connection) reject(new UpstreamError('crowded'))
      else if (connection.hasServed) connection.begin(request, { resolve, reject: (error) => reject(asStale(error)) })
      else connection.begin(request, { resolve, reject })
    })
  return { send, countConnections: pool.count, close: pool.close }
}

const asStale = (error: UpstreamError): UpstreamError =>
  error.fault === 'unanswered' ? new UpstreamError('stale', { cause: error }) : error
