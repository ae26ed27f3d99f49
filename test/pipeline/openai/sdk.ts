import type { JsonValue } from '../../support/client.ts'

export const apis = ['responses', 'chat'] as const

/** The uses of a program: a whole answer, its own loop over a stream, or the SDK's helper. */
export const ways = ['create', 'iterate', 'helper'] as const

/** The ways that ask for a stream. */
export const streamingWays = ['iterate', 'helper'] as const

export type Api = (typeof apis)[number]
export type Way = (typeof ways)[number]

/** One call, as every SDK is asked for it. */
export type SdkCall = Readonly<{
  api: Api
  way: Way
  baseUrl: string
  /** Without one the SDK is told to send no Authorization. */
  apiKey?: string | undefined
  headers: Readonly<Record<string, string>>
  metadata?: JsonValue
  maxRetries: number
  /** Leaves the stream after so many events. */
  leaveAfter?: number | undefined
}>

/** The outcome of a call, as far as the SDK tells the program. */
export type Outcome = Readonly<{
  text: string
  /** The types of the events; those of chat are each a `chunk`. */
  events: readonly string[]
  /** The end that the whole answer states: a response by its status, a completion by its `finish_reason`. */
  result?: string
  /** The response of a `response.failed` event. */
  failed?: JsonValue
  raised?: Raised
}>

/** An exception, with what a program can read of it. */
export type Raised = Readonly<{
  name: string
  message: string
  status?: number
  code?: string
  type?: string
  /** The `x_service_error_code` of the error object. */
  reason?: string
  retryAfter?: string
}>

/** One version of an SDK. */
export type Sdk = Readonly<{
  /** The clients that it has; Python's are two. */
  clients: readonly string[]
  /** The end of the SDK's helper of Responses when the response has failed. */
  failedFinal: 'raises' | 'status'
  /** The error when an ordinary answer breaks off, by the way that was used. */
  halfAnswers: Readonly<Record<Way, string>>
  /** Whether its `create` asks again after such an answer. */
  createsAgain: boolean
  ask: (call: SdkCall, client: string) => Promise<Outcome>
}>
