import type { MessageHead } from '../parser/message-parser.ts'

/** RFC 9112 6.3: these end with their head, whatever length it states. */
export const endsWithHead = (status: number): boolean => status === 204 || status === 304

/** llhttp passes 0.9 and 2.0 as well. */
export const isKnownVersion = ({ version }: MessageHead): boolean => version === '1.1' || version === '1.0'

/**
 * Whether a final head has one reading. llhttp passes invalid statuses (RFC 9110 15).
 *
 * The parser decides how the body ends, from a text that is not trimmed as this one. It tells neither of codings before
 * the last nor of an empty list, so a line that is not the one coding is refused.
 */
export function hasOneReading(head: MessageHead): boolean {
  const { status, headers, isChunked, length = 0 } = head
  if (status > 599 || !isKnownVersion(head) || !Number.isSafeInteger(length)) return false
  let codings = 0
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index]?.toLowerCase() !== 'transfer-encoding') continue
    codings += 1
    if (codings > 1 || !isChunked || headers[index + 1]?.toLowerCase() !== 'chunked') return false
  }
  return isChunked === codings > 0
}

/**
 * RFC 9112 6.1: no answer of HTTP/1.0 has chunks, so what follows is not believed. Chunks are decoded, as all clients do.
 */
export const mayFollow = ({ isKeptAlive, isChunked, version }: MessageHead): boolean =>
  isKeptAlive && (version === '1.1' || !isChunked)
