import { STATUS_CODES } from 'node:http'
import type { ResponseHead } from '../exchange.ts'
import { composeLine, readLineName } from '../header-line.ts'

/** The end of a response, as its client learns it (RFC 9112 6.3). */
export type ResponseFraming = 'length' | 'chunks' | 'close' | 'head'

export type ComposedHead = Readonly<{
  text: string
  framing: ResponseFraming
  isLast: boolean
}>

export type ResponseTerms = Readonly<{
  isHead: boolean
  isHttp10: boolean
  isKeptAlive: boolean
  keepAliveSeconds: number
}>

/** RFC 9112 4: the only bytes of a reason. */
const reasonPattern = /^[\t\x20-\x7e\x80-\xff]*$/

export function composeResponseHead(head: ResponseHead, terms: ResponseTerms): ComposedHead {
  const { status, reason, headers, isBare = false } = head
  const phrase = reason ?? STATUS_CODES[status] ?? ''
  if (!Number.isInteger(status) || status < 100 || status > 999 || !reasonPattern.test(phrase))
    throw new TypeError('not a status line')
  let text = `HTTP/1.1 ${status} ${phrase}\r\n`
  let hasLength = false
  let hasDate = false
  let isLast = !terms.isKeptAlive
  for (let index = 0; index < headers.length; index += 2) {
    const name = readLineName(headers[index] ?? '')
    const value = headers[index + 1] ?? ''
    const { key } = name
    if (key === 'connection') {
      isLast ||= value.toLowerCase() === 'close'
      continue
    }
    if (key === 'content-length') hasLength = true
    if (key === 'date') hasDate = true
    text += composeLine(name, value)
  }
  // RFC 9110 6.6.1: a recipient takes the time of receipt in its place.
  if (!hasDate && !isBare) text += `Date: ${currentDate()}\r\n`
  if (status === 101)
    return { text: `${text}connection: upgrade\r\nupgrade: websocket\r\n\r\n`, framing: 'head', isLast }
  const framing = chooseFraming(status, hasLength, terms)
  // Only the close ends a response without a length for HTTP/1.0.
  isLast ||= terms.isHttp10 && !hasLength
  if (isLast) text += 'Connection: close\r\n'
  else if (!isBare) text += `Connection: keep-alive\r\nKeep-Alive: timeout=${terms.keepAliveSeconds}\r\n`
  // RFC 9112 9.3: HTTP/1.1 keeps a connection unless told otherwise, and 1.0 closes it.
  else if (terms.isHttp10) text += 'Connection: keep-alive\r\n'
  if (framing === 'chunks') text += 'Transfer-Encoding: chunked\r\n'
  return { text: `${text}\r\n`, framing, isLast }
}

function chooseFraming(status: number, hasLength: boolean, { isHead, isHttp10 }: ResponseTerms): ResponseFraming {
  if (isHead || status === 204 || status === 304) return 'head'
  if (hasLength) return 'length'
  return isHttp10 ? 'close' : 'chunks'
}

let dateSecond = 0
let dateText = ''

/** RFC 9110 5.6.7, composed once a second. */
export function currentDate(): string {
  const nowMs = Date.now()
  const second = Math.floor(nowMs / 1_000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = new Date(nowMs).toUTCString()
  }
  return dateText
}
