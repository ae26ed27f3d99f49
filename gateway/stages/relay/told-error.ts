import type { ToldError } from '../../base/errors/told-error.ts'
import { findLineEnds } from './line-ends.ts'
import { skipSpace } from './scan-json.ts'

/** An error that a client can show is shorter. */
export const mostErrorBytes = 64 * 1024

const colon = 0x3a
const openBrace = 0x7b
const openBracket = 0x5b

/** Whether a block that is not an event begins as a JSON object or a list of them, behind comments or at once. */
export function mayTellError(block: Buffer): boolean {
  if (block.length > mostErrorBytes) return false
  const findLineEnd = findLineEnds(block)
  let at = skipSpace(block, 0)
  while (block[at] === colon) {
    const end = findLineEnd(at)
    if (end < 0) return false
    at = skipSpace(block, end)
  }
  return block[at] === openBrace || block[at] === openBracket
}

/**
 * Reads the error that an upstream wrote in place of an event; undefined for every other text. The forms are those of
 * OpenAI and Anthropic, of vLLM and FastChat, of Ollama (a text), of TGI (a text and `error_type`), and of FastAPI
 * (`detail`). Gemini writes a list of one.
 */
export function readToldError(text: Buffer): ToldError | undefined {
  if (text.length > mostErrorBytes) return undefined
  const value = parse(text.toString('utf8'))
  const { error, detail, object } = value
  if (isObject(error)) return compose(error)
  if (typeof error === 'string') return compose({ message: error, type: value.error_type })
  if (object === 'error') return compose(value)
  // FastAPI gives any JSON that a server raises, and a list of what it misses in a request.
  const told = onlyOf(detail)
  return isObject(told) ? compose({ ...told, message: told.message ?? told.msg }) : compose({ message: told })
}

const onlyOf = (value: unknown): unknown => (Array.isArray(value) ? value[0] : value)

type Fields = Readonly<Record<string, unknown>>

function compose({ message, type, code }: Fields): ToldError | undefined {
  if (typeof message !== 'string' || message === '') return undefined
  const isCode = code === null || typeof code === 'string' || typeof code === 'number'
  return { message, ...(typeof type === 'string' && { type }), ...(isCode && { code }) }
}

/** Comments of a stream may stand before the object. */
function parse(text: string): Fields {
  try {
    const value: unknown = JSON.parse(text.replace(/^(?:\ufeff|:[^\r\n]*|[\r\n])*/, ''))
    const told = Array.isArray(value) && value.length === 1 ? value[0] : value
    return isObject(told) ? told : {}
  } catch {
    // Not an error that the upstream tells of: the client gets that of the gateway.
    return {}
  }
}

const isObject = (value: unknown): value is Fields => typeof value === 'object' && value !== null
