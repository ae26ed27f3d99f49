/** An event as an upstream of the Responses API writes it. */
export const writeEvent = (type: string, sequence_number: number, more = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number, ...more })}\n\n`

export const createdEvent = writeEvent('response.created', 0, {
  response: { id: 'resp_1', object: 'response', created_at: 17, status: 'in_progress' },
})
export const deltaEvent = (sequence: number): string =>
  writeEvent('response.output_text.delta', sequence, { delta: 'wörd ' })
export const completedEvent = writeEvent('response.completed', 9, { response: { id: 'resp_1', status: 'completed' } })
export const chatChunk =
  'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":17,"choices":[{"delta":{"content":"wörd"}}]}\n\n'

/** An event as a client of the WHATWG's rules sees it. */
export type ParsedEvent = Readonly<{ event?: string; data: string; id?: string }>

/** Reads a whole stream by WHATWG HTML 9.2.6, in the plainest way: the second opinion on what the gateway does. */
export function parseEvents(bytes: Buffer): readonly ParsedEvent[] {
  const text = bytes.toString('utf8').replace(/^\ufeff/, '')
  const lines = text.split(/\r\n|\n|\r/)
  // Text without a line end is not a line.
  lines.pop()
  const events: ParsedEvent[] = []
  let data: string[] = []
  let event = ''
  let id = ''
  for (const line of lines) {
    if (line === '') {
      if (data.length > 0) events.push({ ...(event && { event }), data: data.join('\n'), ...(id && { id }) })
      data = []
      event = ''
      continue
    }
    const [, field = '', value = ''] = /^([^:]*)(?:: ?([\s\S]*))?$/.exec(line) ?? []
    if (field === 'data') data.push(value)
    else if (field === 'event') event = value
    else if (field === 'id' && !value.includes('\0')) id = value
  }
  return events
}

/** Every way to cut bytes in two, and byte by byte. */
export function cutEverywhere(bytes: Buffer): readonly (readonly Buffer[])[] {
  const pairs = Array.from(bytes, (_, at) => [bytes.subarray(0, at), bytes.subarray(at)])
  return [[bytes], Array.from(bytes, (_, at) => bytes.subarray(at, at + 1)), ...pairs]
}

/** Numbers that look random and are the same in every run (mulberry32). */
export function drawNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Bytes in pieces of random lengths. */
export function cutAtRandom(bytes: Buffer, draw: () => number): readonly Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + Math.floor(draw() * Math.min(20, bytes.length - at))
    pieces.push(bytes.subarray(at, at + length))
    at += length
  }
  return pieces
}
