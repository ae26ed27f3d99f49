import { type ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http'

export type PreparedAnswer = Readonly<{ status: number; headers: readonly string[]; body: Buffer }>

export class BadInstruction extends Error {
  override readonly name = 'BadInstruction'
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function prepareAnswer(wanted: unknown): PreparedAnswer {
  if (!isObject(wanted)) throw new BadInstruction('an answer must be an object')
  const status = wanted.status ?? 200
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 100 || status > 999) {
    throw new BadInstruction('status must be an integer from 100 to 999')
  }
  const headers = readHeaders(wanted.headers ?? {})
  const body = readBody(wanted)
  const isJson = wanted.body !== undefined && typeof wanted.body !== 'string'
  if (isJson && !names(headers).has('content-type')) headers.push('Content-Type', 'application/json')
  return { status, headers, body }
}

export function sendAnswer(response: ServerResponse, { status, headers, body }: PreparedAnswer): void {
  const named = names(headers)
  const isFramed = named.has('content-length') || named.has('transfer-encoding')
  const isBodiless = status < 200 || status === 204 || status === 304
  const framing = isFramed || isBodiless ? [] : ['Content-Length', String(body.length)]
  response.writeHead(status, [...headers, ...framing])
  response.end(body)
}

export function sendJson(response: ServerResponse, status: number, value: unknown, headers: string[] = []): void {
  const body = Buffer.from(`${JSON.stringify(value)}\n`)
  sendAnswer(response, { status, headers: ['Content-Type', 'application/json', ...headers], body })
}

function names(headers: readonly string[]): ReadonlySet<string> {
  return new Set(headers.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase()))
}

function readHeaders(wanted: unknown): string[] {
  if (!isObject(wanted)) throw new BadInstruction('headers must be an object of a value or a list of values')
  return Object.entries(wanted).flatMap(([name, values]) => {
    const list: readonly unknown[] = Array.isArray(values) ? values : [values]
    return list.flatMap((value) => readHeader(name, value))
  })
}

function readHeader(name: string, value: unknown): [string, string] {
  if (typeof value !== 'string' && typeof value !== 'number') throw new BadInstruction(`header ${name} must be a text`)
  try {
    validateHeaderName(name)
    validateHeaderValue(name, String(value))
  } catch (cause) {
    throw new BadInstruction(`header ${JSON.stringify(name)} cannot be sent`, { cause })
  }
  return [name, String(value)]
}

function readBody({ body, bodyBase64 }: Readonly<Record<string, unknown>>): Buffer {
  if (body !== undefined && bodyBase64 !== undefined) throw new BadInstruction('body or bodyBase64, not both')
  if (typeof bodyBase64 === 'string') return Buffer.from(bodyBase64, 'base64')
  if (bodyBase64 !== undefined) throw new BadInstruction('bodyBase64 must be a text')
  if (body === undefined) return Buffer.alloc(0)
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
}
