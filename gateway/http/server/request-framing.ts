import type { MessageHead } from '../parser/message-parser.ts'
import { isHandshake } from '../websocket.ts'

export type RequestFraming = Readonly<{
  bodyLength: number | undefined
  awaitsContinue: boolean
  isHandshake: boolean
}>

const noBody: RequestFraming = { bodyLength: 0, awaitsContinue: false, isHandshake: false }

export function readFraming(head: MessageHead): RequestFraming {
  let expectation: string | undefined
  const { headers, isChunked, length = 0 } = head
  const bodyLength = isChunked ? undefined : length
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (name.length !== 6 || name.toLowerCase() !== 'expect') continue
    const value = headers[index + 1] ?? ''
    expectation = expectation === undefined ? value : `${expectation}, ${value}`
  }
  if (bodyLength === 0 && expectation === undefined && !head.isUpgrade) return noBody
  return {
    bodyLength,
    awaitsContinue: head.version === '1.1' && expectation !== undefined && /\b100-continue\b/i.test(expectation),
    isHandshake:
      head.isUpgrade &&
      isHandshake({ ...head, httpVersion: head.version, headers: joinLines(headers), hasBody: bodyLength !== 0 }),
  }
}

/** Names in lower case, and lines of one name joined, as node:http gives them. */
function joinLines(headers: readonly string[]): Readonly<Record<string, string>> {
  const joined = new Map<string, string>()
  for (let index = 0; index < headers.length; index += 2) {
    const name = (headers[index] ?? '').toLowerCase()
    const value = headers[index + 1] ?? ''
    const before = joined.get(name)
    joined.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  return Object.fromEntries(joined)
}
