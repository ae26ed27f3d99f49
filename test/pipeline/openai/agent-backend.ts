import { randomUUID } from 'node:crypto'
import type { Test } from 'tap'
import { answerAgent } from '../../../demo/backends/answer-agent.ts'
import { playScript } from '../../../demo/backends/play-script.ts'
import { readScript } from '../../../demo/backends/read-script.ts'
import { openJournal, type RecordedRequest } from '../../../demo/backends/record-requests.ts'
import { type AnswerRequest, serveBackend } from '../../../demo/backends/serve-backend.ts'

/** The demo's agent worker by itself, which may stumble at first. */
export type AgentBackend = Readonly<{
  url: string
  /** Requests with this `x-request-id`, oldest first. */
  listRequests: (requestId: string) => readonly RecordedRequest[]
}>

/** Names the script for the first of the requests that share an `x-request-id`. */
export const firstScriptHeader = 'x-first-script'

/** Starts it on a free port and cuts what is open when the test ends. */
export async function startAgentBackend(t: Test): Promise<AgentBackend> {
  const now = () => Date.now()
  const journal = openJournal(now)
  const answer = stumbleFirst(answerAgent({ now, makeId: () => randomUUID().replaceAll('-', '') }))
  const { url, stop } = await serveBackend({ name: 'agent', answer }, journal, '127.0.0.1')
  t.teardown(stop)
  const isOf = (requestId: string) => (request: RecordedRequest) =>
    request.headers.some(([name, value]) => name.toLowerCase() === 'x-request-id' && value === requestId)
  return { url, listRequests: (requestId) => journal.list().filter(isOf(requestId)) }
}

function stumbleFirst(answer: AnswerRequest): AnswerRequest {
  const stumbled = new Set<unknown>()
  return (arrival, response) => {
    const { [firstScriptHeader]: script, 'x-request-id': requestId } = arrival.request.headers
    if (script === undefined || stumbled.has(requestId)) return answer(arrival, response)
    stumbled.add(requestId)
    const dialect = arrival.path.endsWith('/responses') ? 'responses' : 'chat'
    return playScript(readScript(JSON.parse(String(script)), dialect), arrival, response)
  }
}
