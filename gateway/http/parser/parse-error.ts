import type { PlainCode } from '../../base/errors/gateway-error.ts'

export type ParseFault = Readonly<{ code: string; rawPacket: Buffer; bytesParsed: number }>

/** A head that is too large because of its target. llhttp has no code for it. */
export const targetOverflow = 'HPE_TARGET_OVERFLOW'

/** The refusal of a malformed request: 400, or the status that RFC 9112 or the contract names. */
export function refusalOf({ code, rawPacket, bytesParsed: parsed }: ParseFault): PlainCode {
  const packet = rawPacket.toString('latin1')
  switch (code) {
    case 'HPE_INVALID_METHOD':
      return isWord(sliceHead(packet, parsed - blankLine.length)) ? 'method_unknown' : 'headers_malformed'
    case 'HPE_INVALID_TRANSFER_ENCODING':
      // llhttp reports it at the end of the head, so the blank line in front of that end counts.
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

/** The malformed head without earlier pipelined ones: it begins after the last blank line before an offset. */
function sliceHead(packet: string, upTo: number): string {
  const blank = upTo < 0 ? -1 : packet.lastIndexOf(blankLine, upTo)
  return blank < 0 ? packet : packet.slice(blank + blankLine.length)
}

/** An unknown method is 501 only where the rest of the line is valid (RFC 9110 9.1). */
const isWord = (packet: string): boolean => /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64} \S+ HTTP\/1\.[01]\r\n/.test(packet)

/** RFC 9112 6.1: an unknown coding is 501. Beside Content-Length, or on HTTP/1.0, it is an attack and 400. */
function namesUnknownEncoding(packet: string): boolean {
  const head = packet.slice(0, packet.indexOf(blankLine))
  if (/^content[-_.]length[ \t]*:/im.test(head) || / HTTP\/1\.0\r\n/.test(head)) return false
  // A pattern would be quadratic in the spaces behind a value, of which there may be 32 KiB.
  const [coding = '', ...more] = [...head.matchAll(/^transfer-encoding:(.*)$/gim)].map(([, value]) => value ?? '')
  const isList = /^[ \t]*[a-z0-9-]+(?:[ \t]*,[ \t]*[a-z0-9-]+)*[ \t]*$/i.test(coding)
  return more.length === 0 && isList && coding.trim().toLowerCase() !== 'chunked'
}
