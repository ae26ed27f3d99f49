import { GatewayError, type ValidationMessage } from '../errors/gateway-error.ts'
import type { RequestFacts } from './request-facts.ts'

const bodyLimitBytes = 64 * 1024

export type JsonObject = Readonly<Record<string, unknown>>

/** Malformed JSON is 400, and JSON of another type is 422 (SPEC section 11). */
export async function readJsonObject({ body }: Pick<RequestFacts, 'body'>): Promise<JsonObject> {
  const bytes = await body.read(bodyLimitBytes)
  const value = parseJson(bytes)
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject
  throw invalid([{ field: '', rule: 'type', message: 'The body must be a JSON object.' }])
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw new GatewayError('body_unparseable', { cause: error })
  }
}

export const invalid = (messages: readonly ValidationMessage[]): GatewayError =>
  new GatewayError('validation_failure', { messages })
