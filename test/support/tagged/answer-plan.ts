/** A backend's answer to one request, which the request itself brings in `x-plan`. */
export type AnswerPlan = Readonly<{
  status: 200 | 204 | 304
  framing: 'length' | 'chunked' | 'close'
  /** Bytes of the body. */
  bytes: number
  /** Bytes of head and body together; the head is padded up to them. */
  wholeBytes?: number
  chunkBytes?: number
  interimHeads?: number
  delayMs?: number
  /** Places at which a write ends, and the time before the next one. */
  cuts?: readonly number[]
  gapMs?: number
  /** Answers at the head of the request, whose body is still on its way. */
  isEarly?: boolean
  /** Keeps a connection that the request asked it to close. */
  ignoresClose?: boolean
  /** Resets the connection after so many bytes. */
  breaksAfter?: number
  surplus?: Surplus
}>

/** Bytes behind the answer that belong to no request. */
export type Surplus = Readonly<{
  kind: 'answer' | 'fragment' | 'crlf' | 'body'
  /** In the same buffer, in a write of the same turn that the system gets at once, in another such write, or later. */
  timing: 'joined' | 'corked' | 'apart' | 'late'
  bytes: number
  /** For `fragment`: bytes of an answer that are left out before it. */
  from?: number
  lateMs?: number
}>

/** A tag names the organization, the caller and the number of a request: `acme/owner/17`. Each body repeats it. */
export const unitOf = (tag: string): Buffer => Buffer.from(`${tag};`, 'latin1')

export const fillBody = (tag: string, bytes: number): Buffer => Buffer.alloc(bytes, unitOf(tag))

/** Tags in text; that of a surplus has a word about its timing behind a plus. Without `\b` a long word takes quadratic time. */
export const tagPattern = /\b[a-z]+\/[a-z]+\/\d+(?:\+[a-z]+)?;/g

/** Finds the first byte of a body that is not its owner's. */
export class BodyCheck {
  readonly #page: Buffer
  readonly #unitBytes: number
  length = 0

  constructor(tag: string, bytes: number) {
    this.#unitBytes = tag.length + 1
    const units = Math.ceil(Math.min(bytes, 64 * 1024) / this.#unitBytes) + 1
    this.#page = fillBody(tag, units * this.#unitBytes)
  }

  /** Returns the place in these bytes, or -1. */
  take(bytes: Buffer): number {
    for (let from = 0; from < bytes.length; ) {
      const start = this.length % this.#unitBytes
      const count = Math.min(this.#page.length - start, bytes.length - from)
      if (bytes.compare(this.#page, start, start + count, from, from + count) !== 0) {
        let at = 0
        while (bytes[from + at] === this.#page[start + at]) at += 1
        return from + at
      }
      this.length += count
      from += count
    }
    return -1
  }
}

const reasons = { 200: 'OK', 204: 'No Content', 304: 'Not Modified' } as const

export function composeAnswer(plan: AnswerPlan, method: string, tag: string): Buffer {
  const { status, framing, bytes, wholeBytes, chunkBytes = 4_000 } = plan
  const lines = [`HTTP/1.1 ${status} ${reasons[status]}`, `x-tag: ${tag};`, 'content-type: application/octet-stream']
  if (framing === 'chunked' && status === 200) lines.push('transfer-encoding: chunked')
  else if (framing === 'close') lines.push('connection: close')
  else if (status !== 204) lines.push(`content-length: ${bytes}`)
  const head = `${lines.join('\r\n')}\r\n`
  const body = method === 'HEAD' || status !== 200 ? undefined : fillBody(tag, bytes)
  const content = body && framing === 'chunked' ? toChunks(body, chunkBytes) : (body ?? Buffer.alloc(0))
  const padBytes = wholeBytes === undefined ? 0 : wholeBytes - head.length - content.length - 'x-pad: \r\n\r\n'.length
  const pad = padBytes > 0 ? `x-pad: ${'p'.repeat(padBytes)}\r\n` : ''
  return Buffer.concat([Buffer.from(`${head}${pad}\r\n`, 'latin1'), content])
}

function toChunks(body: Buffer, chunkBytes: number): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at < body.length; at += chunkBytes) {
    const chunk = body.subarray(at, at + chunkBytes)
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'))
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
}

export function composeSurplus({ kind, bytes, from = 0 }: Surplus, tag: string): Buffer {
  const answer = (): Buffer => composeAnswer({ status: 200, framing: 'length', bytes }, 'GET', tag)
  switch (kind) {
    case 'answer':
      return answer()
    case 'fragment':
      return answer().subarray(from, from + 1 + Math.floor(bytes / 2))
    case 'crlf':
      return Buffer.from('\r\n\r\n')
    case 'body':
      return fillBody(tag, bytes)
    default:
      return kind satisfies never
  }
}
