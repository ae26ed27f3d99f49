import type { RawHeaders } from '../exchange.ts'

/** RFC 9112 6.3: these end with their head, whatever length it states. */
export const endsWithHead = (status: number): boolean => status === 204 || status === 304

/**
 * Whether the framing of a final head has one reading. llhttp passes invalid statuses (RFC 9110 15), and the bytes of
 * an unknown transfer coding as content.
 */
export function hasUnambiguousFraming(status: number, headers: RawHeaders): boolean {
  if (status > 599) return false
  let codings = 0
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index]?.toLowerCase() !== 'transfer-encoding') continue
    codings += 1
    if (codings > 1 || headers[index + 1]?.toLowerCase() !== 'chunked') return false
  }
  return true
}
