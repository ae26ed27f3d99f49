import type { ServerResponse } from 'node:http'
import { isObject, sendJson } from './prepare-answer.ts'
import { collectBody } from './receive-body.ts'
import type { AnswerRequest, BackendRequest } from './serve-backend.ts'

type Fields = Readonly<Record<string, unknown>>

const maxBodyBytes = 1024 * 1024

const metrics: Fields = {
  metrics: { requests: 18_204, errors: 37, latencyMs: { p50: 12, p95: 48, p99: 131 } },
  usage: { inputTokens: 1_204_331, outputTokens: 388_120, storageBytes: 7_340_032 },
  reports: [
    { id: 1, name: 'January', rows: 1240 },
    { id: 2, name: 'February', rows: 1377 },
  ],
}

export const answerGraphql: AnswerRequest = (arrival, response) => {
  if (arrival.method !== 'POST' || arrival.path !== '/graphql') return undefined
  return answerQuery(arrival, response)
}

async function answerQuery({ body }: BackendRequest, response: ServerResponse): Promise<void> {
  const bytes = await collectBody(body, maxBodyBytes)
  if (bytes === 'cut') return
  const query = bytes === 'too-large' ? undefined : readQuery(bytes)
  if (query === undefined || !isBalanced(query)) return sendJson(response, 200, refuseQuery())
  const asked = Object.entries(metrics).filter(([name]) => new RegExp(`\\b${name}\\b`).test(query))
  sendJson(response, 200, { data: asked.length > 0 ? Object.fromEntries(asked) : metrics })
}

function readQuery(bytes: Buffer): string | undefined {
  try {
    const body: unknown = JSON.parse(bytes.toString('utf8'))
    return isObject(body) && typeof body.query === 'string' ? body.query : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function isBalanced(query: string): boolean {
  let depth = 0
  for (const character of query) {
    if (character === '{') depth += 1
    else if (character === '}') depth -= 1
    if (depth < 0) return false
  }
  return depth === 0 && query.includes('{')
}

function refuseQuery(): Fields {
  const extensions = { code: 'GRAPHQL_PARSE_FAILED' }
  return { data: null, errors: [{ message: 'Syntax Error: no query could be read.', path: [], extensions }] }
}
