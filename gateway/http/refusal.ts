import { STATUS_CODES } from 'node:http'
import { GatewayError, type PlainCode } from '../base/errors/gateway-error.ts'
import { render } from '../base/errors/render.ts'
import { methods } from '../policy/route.ts'

export function composeRefusal(code: PlainCode, requestId: string): string {
  const details = code === 'method_not_allowed' ? { allow: methods } : {}
  const { status, headers, body } = render(new GatewayError(code, details), 'platform', requestId)
  return (
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${toLines(headers)}content-length: ${Buffer.byteLength(body)}\r\n` +
    `connection: close\r\n\r\n${body}`
  )
}

const toLines = (headers: readonly string[]): string =>
  headers.map((part, index) => (index % 2 === 0 ? `${part}: ` : `${part}\r\n`)).join('')
