import type { DnsCache } from '../dns-cache.ts'
import { type Send, type UpstreamAnswer, UpstreamError } from '../engine.ts'
import { createPool } from './pool.ts'

/** What sends, and how many connections it has open for that, by their origins. */
type Sender = Readonly<{
  send: Send
  countConnections: () => ReadonlyMap<string, number>
  close: () => Promise<void>
}>

/** Sends each request over a connection that it has to itself until its answer is whole. */
export function createSender(maxConnections: number, names: DnsCache, clusterNames: DnsCache): Sender {
  const pool = createPool(maxConnections, names, clusterNames)
  const send: Send = (request) =>
    new Promise<UpstreamAnswer>((resolve, reject) => {
      const needs = { isFresh: request.isFreshConnection, isForUpgrade: request.asksForWebSocket }
      const connection = pool.take(request, needs)
      if (connection) connection.begin(request, { resolve, reject })
      else reject(new UpstreamError('crowded'))
    })
  return { send, countConnections: pool.count, close: pool.close }
}
