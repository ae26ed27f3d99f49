import type OpenAI from 'openai-6'
import type { JsonValue } from '../../support/client.ts'
import type { Api, Outcome, Raised, Sdk, SdkCall, Way } from './sdk.ts'

/** An `openai` package of npm. */
export const javascriptSdk = (Client: typeof OpenAI): Sdk => ({
  clients: ['OpenAI'],
  failedFinal: 'status',
  halfAnswers: { create: 'TypeError', iterate: 'TypeError', helper: 'OpenAIError' },
  createsAgain: false,
  ask: (call) => ask(new Client(readOptions(call)), call),
})

const readOptions = ({ baseUrl, apiKey, headers, maxRetries }: SdkCall) => ({
  baseURL: baseUrl,
  apiKey: apiKey ?? 'none',
  defaultHeaders: apiKey === undefined ? { ...headers, authorization: null } : headers,
  maxRetries,
  // Without these the SDK would read variables of this machine.
  organization: null,
  project: null,
  logLevel: 'off' as const,
})

type Notes = { -readonly [Field in keyof Outcome]: Outcome[Field] } & { events: string[] }
type Program = (client: OpenAI, call: SdkCall, notes: Notes) => Promise<void>

async function ask(client: OpenAI, call: SdkCall): Promise<Outcome> {
  const notes: Notes = { text: '', events: [] }
  try {
    await programs[call.api][call.way](client, call, notes)
  } catch (error) {
    notes.raised = describe(error)
  }
  return notes
}

const question = { model: 'm', input: 'hi' }
const chatQuestion = { model: 'm', messages: [{ role: 'user' as const, content: 'hi' }] }

/** Programs as the documentation of the SDK shows them. */
const programs: Readonly<Record<Api, Readonly<Record<Way, Program>>>> = {
  responses: {
    create: async (client, { metadata }, notes) => {
      noteResponse(await client.responses.create({ ...question, metadata }), notes)
    },
    iterate: async (client, { metadata, leaveAfter }, notes) => {
      const stream = await client.responses.create({ ...question, metadata, stream: true })
      for await (const event of stream) {
        noteEvent(event, notes)
        if (notes.events.length === leaveAfter) break
      }
    },
    helper: async (client, { metadata }, notes) => {
      const stream = client.responses.stream({ ...question, metadata })
      stream.on('event', (event) => noteEvent(event, notes))
      noteResponse(await stream.finalResponse(), notes)
    },
  },
  chat: {
    create: async (client, { metadata }, notes) => {
      noteCompletion(await client.chat.completions.create({ ...chatQuestion, metadata }), notes)
    },
    iterate: async (client, { metadata, leaveAfter }, notes) => {
      const stream = await client.chat.completions.create({ ...chatQuestion, metadata, stream: true })
      for await (const chunk of stream) {
        noteChunk(chunk, notes)
        if (notes.events.length === leaveAfter) break
      }
    },
    helper: async (client, { metadata }, notes) => {
      const stream = client.chat.completions.stream({ ...chatQuestion, metadata })
      stream.on('chunk', (chunk) => noteChunk(chunk, notes))
      noteCompletion(await stream.finalChatCompletion(), notes)
    },
  },
}

function noteEvent(event: JsonValue, notes: Notes): void {
  notes.events.push(event.type)
  if (event.type === 'response.output_text.delta') notes.text += event.delta
  if (event.type === 'response.failed') notes.failed = event.response
}

function noteChunk({ choices }: OpenAI.ChatCompletionChunk, notes: Notes): void {
  notes.events.push('chunk')
  notes.text += choices[0]?.delta.content ?? ''
}

function noteResponse({ output_text, status }: OpenAI.Responses.Response, notes: Notes): void {
  notes.text = output_text
  notes.result = status ?? 'none'
}

function noteCompletion({ choices }: OpenAI.ChatCompletion, notes: Notes): void {
  notes.text = choices[0]?.message.content ?? ''
  notes.result = choices[0]?.finish_reason ?? 'none'
}

function describe(caught: JsonValue): Raised {
  const { message, status, code, type, error, headers } = caught
  return {
    name: caught.constructor.name,
    message,
    status,
    code,
    type,
    reason: error?.x_service_error_code,
    retryAfter: headers?.get('retry-after'),
  }
}
