import { randomUUID } from 'node:crypto'
import { ownText } from '../../base/lib/own-text.ts'
import type { RawHeaders } from '../../http/exchange.ts'

const sane = /^[A-Za-z0-9._-]{1,128}$/

/** Ids go into logs and to backends, so a credential put there by mistake must not pass. */
const credentialLike = /oat_|^eyJ/

export const isRequestId = (id: string): boolean => sane.test(id) && !credentialLike.test(id)

export function readRequestId(headers: RawHeaders): string {
  let id: string | undefined
  let count = 0
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (name.length !== 12 || name.toLowerCase() !== 'x-request-id') continue
    id = headers[index + 1]
    count += 1
  }
  if (count !== 1 || id === undefined || !isRequestId(id)) return randomUUID()
  return ownText(id)
}
