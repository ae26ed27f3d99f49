import type { PlainCode } from '../../errors/gateway-error.ts'

/** Bytes that are no message: llhttp's code, and how far into them it came. */
export type ParseFault = Readonly<{ code: string; rawPacket: Buffer; bytesParsed: number }>

/** Of a head that is too large for its target: llhttp itself has no name for that. */
export const targetOverflow = 'HPE_TARGET_OVERFLOW'

/** The refusal for bytes that are no request: mostly 400, else the status that RFC 9112 or the contract names. */
export function refusalOf({ code, rawPacket, bytesParsed: parsed }: ParseFault): PlainCode {
  const packet = rawPacket.toString('latin1')
  switch (code) {
    case 'HPE_INVALID_METHOD':
      return isWord(sliceHead(packet, parsed - blankLine.length)) ? 'method_unknown' : 'headers_malformed'
    case 'HPE_INVALID_TRANSFER_ENCODING':
      // Found at the head's end, so the blank line before is the one that counts.
      return namesUnknownEncoding(sliceHead(packet, parsed - blankLine.length - 1))
        ? 'transfer_encoding_unknown'
        : 'headers_malformed'
    case targetOverflow:
      return 'target_too_long'
    case 'HPE_HEADER_OVERFLOW':
      return 'headers_too_large'
    default:
      return 'headers_malformed'
  }
}

const blankLine = '\r\n\r\n'

/** The head at fault, without what was pipelined before it: it begins behind the last blank line up to a place. */
function sliceHead(packet: string, upTo: number): string {
  const blank = upTo < 0 ? -1 : packet.lastIndexOf(blankLine, upTo)
  return blank < 0 ? packet : packet.slice(blank + blankLine.length)
}

/** An unknown method is 501 only where the rest of the line is a request's (RFC 9110 9.1). */
const isWord = (packet: string): boolean => /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64} \S+ HTTP\/1\.[01]\r\n/.test(packet)

/** RFC 9112 6.1: 501 for a coding we do not know; beside Content-Length, or on HTTP/1.0, it is an attack: 400. */
function namesUnknownEncoding(packet: string): boolean {
  const head = packet.slice(0, packet.indexOf(blankLine))
  if (/^content[-_.]length[ \t]*:/im.test(head) || / HTTP\/1\.0\r\n/.test(head)) return false
  // Without a pattern for the spaces behind a value: there may be 32 KiB of them, and one look at each is enough.
  const [coding = '', ...more] = [...head.matchAll(/^transfer-encoding:(.*)$/gim)].map(([, value]) => value ?? '')
  const isList = /^[ \t]*[a-z0-9-]+(?:[ \t]*,[ \t]*[a-z0-9-]+)*[ \t]*$/i.test(coding)
  return more.length === 0 && isList && coding.trim().toLowerCase() !== 'chunked'
}
