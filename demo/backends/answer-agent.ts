import type { ServerResponse } from 'node:http'
import { composeChat, composeChatStream } from './compose-chat.ts'
import { composeResponse, composeResponsesStream, type Turn } from './compose-responses.ts'
import { playScript } from './play-script.ts'
import { BadInstruction, isObject, sendJson } from './prepare-answer.ts'
import { type Dialect, readScript, type ScriptStep } from './read-script.ts'
import { collectBody } from './receive-body.ts'
import type { AnswerRequest, BackendRequest } from './serve-backend.ts'

type Fields = Readonly<Record<string, unknown>>

export type AgentClock = Readonly<{ now: () => number; makeId: () => string }>

const maxBodyBytes = 100 * 1024 * 1024
const pauseBetweenPiecesMs = 10

export function answerAgent(clock: AgentClock): AnswerRequest {
  return (arrival, response) => {
    const call = readCall(arrival)
    return call && answerCall(call, clock, arrival, response)
  }
}

type Call = Readonly<{ agent: string; dialect: Dialect }>

function readCall({ method, path }: BackendRequest): Call | undefined {
  const [, agent, operation] = /^\/agent\/([^/]+)\/(responses|chat\/completions)$/.exec(path) ?? []
  if (method !== 'POST' || agent === undefined) return undefined
  return { agent, dialect: operation === 'responses' ? 'responses' : 'chat' }
}

async function answerCall(
  call: Call,
  clock: AgentClock,
  arrival: BackendRequest,
  response: ServerResponse,
): Promise<void> {
  const bytes = await collectBody(arrival.body, maxBodyBytes)
  if (bytes === 'cut') return
  if (bytes === 'too-large') {
    const error = { message: 'The body is too large.', type: 'invalid_request_error', code: 'payload_too_large' }
    return sendJson(response, 413, { error })
  }
  const body = readJsonObject(bytes)
  const metadata = isObject(body.metadata) ? body.metadata : {}
  if (metadata.script !== undefined) return playScript(readScript(metadata.script, call.dialect), arrival, response)

  const turn = takeTurn(call, body, clock)
  if (body.stream === true) return playScript(composeStream(call.dialect, turn, body), arrival, response)
  sendJson(response, 200, call.dialect === 'responses' ? composeResponse(turn) : composeChat(turn))
}

function readJsonObject(bytes: Buffer): Fields {
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    if (isObject(value)) return value
  } catch (cause) {
    throw new BadInstruction('the body is not JSON', { cause })
  }
  throw new BadInstruction('the body must be a JSON object')
}

function takeTurn({ agent, dialect }: Call, body: Fields, { now, makeId }: AgentClock): Turn {
  const said = dialect === 'responses' ? body.input : readLastMessage(body.messages)
  const heard = typeof said === 'string' ? ` You said: ${said.slice(0, 200)}` : ''
  const text = `Hello from agent ${agent}.${heard}`
  return {
    model: typeof body.model === 'string' ? body.model : `demo-agent-${agent}`,
    pieces: text.split(/(?<= )/),
    createdAt: Math.floor(now() / 1000),
    makeId,
    metadata: body.metadata,
  }
}

function readLastMessage(messages: unknown): unknown {
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined
  return isObject(last) ? last.content : undefined
}

function composeStream(dialect: Dialect, turn: Turn, body: Fields): ScriptStep[] {
  const wantsUsage = isObject(body.stream_options) && body.stream_options.include_usage === true
  const writes = dialect === 'responses' ? composeResponsesStream(turn) : composeChatStream(turn, wantsUsage)
  return writes.flatMap((write) => [write, { kind: 'wait', waitMs: pauseBetweenPiecesMs }])
}
