import { GatewayError, type ValidationMessage } from '../../base/errors/gateway-error.ts'
import { parseUnambiguous } from '../../base/lib/parse-shallow.ts'
import type { ConfirmedBody, RequestFacts } from './request-facts.ts'

/** A mint with all its fields has a few KiB, and the whole body is held (docs/guides/write-policies.md). */
const bodyLimitBytes = 64 * 1024

/** No body of an endpoint nests its members deeper. */
const mostDepth = 8

export type JsonObject = Readonly<Record<string, unknown>>

/**
 * Malformed JSON is 400, and JSON of another type is 422 (SPEC section 11). A member that comes twice is 400 as well.
 * Programs differ in which of the two they read (RFC 8259 4), and a proxy in front may have judged the other.
 */
export async function readJsonObject({
  readBody,
}: Pick<RequestFacts, 'readBody'>): Promise<Readonly<{ body: JsonObject; confirmed: ConfirmedBody }>> {
  const confirmed = await readBody(bodyLimitBytes)
  const value = parseJson(confirmed.bytes)
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return { body: value as JsonObject, confirmed }
  throw invalid([{ field: '', rule: 'type', message: 'The body must be a JSON object.' }])
}

function parseJson(bytes: Buffer): unknown {
  try {
    return parseUnambiguous(new TextDecoder('utf-8', { fatal: true }).decode(bytes), mostDepth)
  } catch (error) {
    throw new GatewayError('body_unparseable', { cause: error })
  }
}

export const invalid = (messages: readonly ValidationMessage[]): GatewayError =>
  new GatewayError('validation_failure', { messages })
