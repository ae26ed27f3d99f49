import { randomUUID } from 'node:crypto'
import type { RawHeaders } from '../engine/exchange.ts'

const sane = /^[A-Za-z0-9._-]{1,128}$/

/** The id goes into logs and on to backends; a credential put there by mistake must not. */
const credentialLike = /oat_|^eyJ/

/** The client's `x-request-id` where there is one and it is sane, else a new one. */
export function readRequestId(headers: RawHeaders): string {
  const found: string[] = []
  for (let index = 0; index < headers.length; index += 2)
    if (headers[index]?.toLowerCase() === 'x-request-id') found.push(headers[index + 1] ?? '')
  const [id] = found
  return found.length === 1 && id !== undefined && sane.test(id) && !credentialLike.test(id) ? id : randomUUID()
}
