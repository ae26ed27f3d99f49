import { type ScriptStep, writeEvent } from './read-script.ts'

export type Turn = Readonly<{
  model: string
  pieces: readonly string[]
  createdAt: number
  makeId: () => string
  metadata: unknown
}>

type Fields = Readonly<Record<string, unknown>>

export function composeResponse(turn: Turn): Fields {
  return complete(openResponse(turn), writeMessage(turn, `msg_${turn.makeId()}`), turn)
}

export function composeResponsesStream(turn: Turn): ScriptStep[] {
  const response = openResponse(turn)
  const itemId = `msg_${turn.makeId()}`
  const message = writeMessage(turn, itemId)
  const text = turn.pieces.join('')
  const part = { type: 'output_text', text, annotations: [], logprobs: [] }
  const place = { item_id: itemId, output_index: 0, content_index: 0 }

  const events: Fields[] = [
    { type: 'response.created', response },
    { type: 'response.in_progress', response },
    { type: 'response.output_item.added', output_index: 0, item: { ...message, status: 'in_progress', content: [] } },
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...turn.pieces.map((delta) => ({ type: 'response.output_text.delta', ...place, delta, logprobs: [] })),
    { type: 'response.output_text.done', ...place, text, logprobs: [] },
    { type: 'response.content_part.done', ...place, part },
    { type: 'response.output_item.done', output_index: 0, item: message },
    { type: 'response.completed', response: complete(response, message, turn) },
  ]
  return events.map(({ type, ...rest }, sequence_number) => writeEvent({ type, sequence_number, ...rest }, 'responses'))
}

function openResponse({ model, createdAt, makeId, metadata }: Turn): Fields {
  return {
    id: `resp_${makeId()}`,
    object: 'response',
    created_at: createdAt,
    status: 'in_progress',
    background: false,
    error: null,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: null,
    model,
    output: [],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: true,
    temperature: 1,
    text: { format: { type: 'text' } },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    truncation: 'disabled',
    usage: null,
    user: null,
    metadata: metadata ?? {},
  }
}

function writeMessage({ pieces }: Turn, id: string): Fields {
  const content = [{ type: 'output_text', text: pieces.join(''), annotations: [], logprobs: [] }]
  return { id, type: 'message', status: 'completed', role: 'assistant', content }
}

function complete(response: Fields, message: Fields, { pieces }: Turn): Fields {
  const usage = {
    input_tokens: 8,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: pieces.length,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 8 + pieces.length,
  }
  return { ...response, status: 'completed', output: [message], usage }
}
