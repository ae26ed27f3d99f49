import type { RawHeaders } from './exchange.ts'
import { composeLine, readLineName } from './header-line.ts'

/** Framing is the engine's, and `host` the request's own. */
const perRequestHeaders = new Set([
  'host',
  'content-length',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
  'expect',
])

/** Lines that are sent many times: they are looked at and put together once. An instance is the proof of that. */
export class PreparedHeaders {
  readonly headers: RawHeaders
  /** As they stand in a head. */
  readonly text: string

  /** Throws for what is no line, or one that a request of many cannot have. */
  constructor(headers: RawHeaders) {
    this.headers = [...headers]
    let text = ''
    for (let index = 0; index < headers.length; index += 2) {
      const name = readLineName(headers[index] ?? '')
      if (perRequestHeaders.has(name.key)) throw new TypeError('a line of framing')
      text += composeLine(name, headers[index + 1] ?? '')
    }
    this.text = text
  }
}
