import type { ServerResponse } from 'node:http'
import { sendJson } from './prepare-answer.ts'
import type { AnswerRequest, BackendRequest } from './serve-backend.ts'

type Row = Readonly<Record<string, unknown>>
type Reply = Readonly<{ status: number; value: Row }>

const entryCount = 25

/**
 * A data cluster: flat objects, and `{detail}` on errors. `prefix` is the part of the paths that the gateway does not
 * strip.
 */
export function answerCluster(name: string, prefix = ''): AnswerRequest {
  return (arrival, response) => {
    if (arrival.method !== 'GET' && arrival.method !== 'HEAD') return undefined
    if (!arrival.path.startsWith(`${prefix}/`)) return undefined
    const reply = readReply(name, arrival.path.slice(prefix.length))
    return reply && answerWhenArrived(arrival, response, reply)
  }
}

async function answerWhenArrived({ body }: BackendRequest, response: ServerResponse, reply: Reply): Promise<void> {
  if (await body.arrived) sendJson(response, reply.status, reply.value)
}

function readReply(name: string, path: string): Reply | undefined {
  if (path === '/')
    return { status: 200, value: { name, engine: 'demo', entries: entryCount, collections: ['entries'] } }
  if (path === '/entries') {
    const entries = Array.from({ length: entryCount }, (_, index) => describeEntry(name, index + 1))
    return { status: 200, value: { count: entryCount, entries } }
  }
  const [, id] = /^\/entries\/([^/]+)$/.exec(path) ?? []
  if (id === undefined) return undefined
  const isKnown = /^[1-9]\d?$/.test(id) && Number(id) <= entryCount
  if (isKnown) return { status: 200, value: describeEntry(name, Number(id)) }
  return { status: 404, value: { detail: `Entry ${id} not found` } }
}

function describeEntry(cluster: string, id: number): Row {
  return { id, slug: `entry-${id}`, cluster, text: `Text of entry ${id}`, tokens: 100 + id, language: 'en' }
}
