import type { Turn } from './compose-responses.ts'
import { type ScriptStep, writeEvent } from './read-script.ts'

type Fields = Readonly<Record<string, unknown>>

export function composeChat(turn: Turn): Fields {
  const message = { role: 'assistant', content: turn.pieces.join(''), refusal: null, annotations: [] }
  return {
    ...openCompletion(turn, 'chat.completion'),
    choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }],
    usage: countUsage(turn),
  }
}

export function composeChatStream(turn: Turn, wantsUsage: boolean): ScriptStep[] {
  const base = openCompletion(turn, 'chat.completion.chunk')
  const usage = wantsUsage ? { usage: null } : {}
  const chunk = (delta: Fields, finish_reason: 'stop' | null): Fields => ({
    ...base,
    choices: [{ index: 0, delta, logprobs: null, finish_reason }],
    ...usage,
  })

  const chunks: Fields[] = [
    chunk({ role: 'assistant', content: '', refusal: null }, null),
    ...turn.pieces.map((content) => chunk({ content }, null)),
    chunk({}, 'stop'),
    ...(wantsUsage ? [{ ...base, choices: [], usage: countUsage(turn) }] : []),
  ]
  const done: ScriptStep = { kind: 'write', bytes: Buffer.from('data: [DONE]\n\n') }
  return [...chunks.map((fields) => writeEvent(fields, 'chat')), done]
}

function openCompletion({ model, createdAt, makeId }: Turn, object: string): Fields {
  return { id: `chatcmpl-${makeId()}`, object, created: createdAt, model, system_fingerprint: null }
}

function countUsage({ pieces }: Turn): Fields {
  return { prompt_tokens: 8, completion_tokens: pieces.length, total_tokens: 8 + pieces.length }
}
