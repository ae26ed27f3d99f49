import { type Send, type UpstreamAnswer, UpstreamError } from '../engine.ts'
import { createPool } from './pool.ts'

/** Sends each request over a connection that it has to itself until its answer is whole. */
export function createSender(maxConnections: number): Readonly<{ send: Send; close: () => Promise<void> }> {
  const pool = createPool(maxConnections)
  const send: Send = (request) =>
    new Promise<UpstreamAnswer>((resolve, reject) => {
      const needs = { isFresh: request.isFreshConnection, isForUpgrade: request.asksForWebSocket }
      const connection = pool.take(request.origin, needs)
      if (connection) connection.begin(request, { resolve, reject })
      else reject(new UpstreamError('unreachable', { cause: new Error('too many connections') }))
    })
  return { send, close: pool.close }
}
