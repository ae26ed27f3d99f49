import type { RawHeaders } from './exchange.ts'
import { composeLine, readLineName } from './header-line.ts'

const perRequestHeaders = new Set([
  'host',
  'content-length',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
  'expect',
])

/** Header lines that are validated and joined once, then sent with many requests. */
export class PreparedHeaders {
  readonly headers: RawHeaders
  readonly text: string

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
