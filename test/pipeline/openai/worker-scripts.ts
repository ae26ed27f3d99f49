import type { JsonValue } from '../../support/client.ts'
import type { Api } from './sdk.ts'

/** Steps of the demo's agent worker, written for each of the two APIs. */
export type Script = Readonly<Record<Api, readonly JsonValue[]>>

/** The same steps for both APIs. */
export const either = (...steps: readonly JsonValue[]): Script => ({ responses: steps, chat: steps })

export const joinScripts = (...scripts: readonly Script[]): Script => ({
  responses: scripts.flatMap(({ responses }) => responses),
  chat: scripts.flatMap(({ chat }) => chat),
})

const item = { id: 'msg_7', type: 'message', role: 'assistant' }
const place = { item_id: item.id, output_index: 0, content_index: 0 }
const part = (text: string) => ({ type: 'output_text', text, annotations: [], logprobs: [] })
const response = (status: string, output: readonly JsonValue[] = []) => ({
  response: { id: 'resp_7', object: 'response', created_at: 17, model: 'm', status, output, tools: [], metadata: {} },
})
const inProgress = { ...item, status: 'in_progress', content: [] }
const completed = { ...item, status: 'completed', content: [part('Hello')] }

const events: readonly JsonValue[] = [
  { type: 'response.created', ...response('in_progress') },
  { type: 'response.output_item.added', output_index: 0, item: inProgress },
  { type: 'response.content_part.added', ...place, part: part('') },
  { type: 'response.output_text.delta', ...place, delta: 'Hel', logprobs: [] },
  { type: 'response.output_text.delta', ...place, delta: 'lo', logprobs: [] },
  { type: 'response.output_text.done', ...place, text: 'Hello', logprobs: [] },
  { type: 'response.content_part.done', ...place, part: part('Hello') },
  { type: 'response.output_item.done', output_index: 0, item: completed },
  { type: 'response.completed', ...response('completed', [completed]) },
].map((event, sequence_number) => ({ ...event, sequence_number }))

const chunk = (delta: JsonValue, finish_reason: string | null = null) => ({
  id: 'chatcmpl-7',
  object: 'chat.completion.chunk',
  created: 17,
  model: 'm',
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
})
const chunks = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ content: 'Hel' }),
  chunk({ content: 'lo' }),
  chunk({}, 'stop'),
]

const send = (event: JsonValue) => ({ event })

/** Sends `Hel`. */
export const firstHalf: Script = { responses: events.slice(0, 4).map(send), chat: chunks.slice(0, 2).map(send) }

/** Sends `lo`, and then the terminal event of its API. */
export const secondHalf: Script = {
  responses: events.slice(4).map(send),
  chat: [...chunks.slice(2).map(send), { raw: 'data: [DONE]\n\n' }],
}

/** Sends the terminal event of its API without the blank line behind it. */
export const unclosedEnd: Script = {
  responses: [{ raw: `data: ${JSON.stringify(events.at(-1))}` }],
  chat: [{ raw: 'data: [DONE]' }],
}

/** As the second half, with an end that lacks its blank line. */
export const unclosedHalf: Script = joinScripts(
  { responses: events.slice(4, -1).map(send), chat: chunks.slice(2).map(send) },
  unclosedEnd,
)

/** As the second half, from a chat backend that never sends [DONE]. */
export const markerlessHalf: Script = { ...secondHalf, chat: secondHalf.chat.slice(0, -1) }

/** The same, and the chunk with the `finish_reason` lacks its blank line. */
export const unclosedMarkerlessHalf: Script = {
  ...secondHalf,
  chat: [...chunks.slice(2, -1).map(send), { raw: `data: ${JSON.stringify(chunks.at(-1))}` }],
}

/** The chunk with the `finish_reason` alone; nothing on the other API. */
export const finishReason: Script = { responses: [], chat: chunks.slice(-1).map(send) }

/** The beginning of an event that never ends. */
export const halfEvent: Script = {
  responses: [{ raw: 'event: response.completed\ndata: {"type":"response.com' }],
  chat: [{ raw: 'data: {"id":"chatcmpl-7","choices":[{"index":0,"delta":{"content":"lo' }],
}

/** Gives every event that is sent an `id` line of its own. */
export const numberEvents = ({ responses, chat }: Script): Script => ({
  responses: responses.map(numberEvent),
  chat: chat.map(numberEvent),
})

const numberEvent = (step: JsonValue, index: number): JsonValue =>
  step.event ? { raw: `id: ${index}\ndata: ${JSON.stringify(step.event)}\n\n` } : step
