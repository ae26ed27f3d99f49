import { randomUUID } from 'node:crypto'
import type { RawHeaders } from '../http/exchange.ts'

const sane = /^[A-Za-z0-9._-]{1,128}$/

/** The id goes into logs and on to backends; a credential put there by mistake must not. */
const credentialLike = /oat_|^eyJ/

/** Whether an id of another program may be written down. */
export const isRequestId = (id: string): boolean => sane.test(id) && !credentialLike.test(id)

/** The client's `x-request-id` where there is one and it is sane, else a new one. */
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
  // A string of its own, and no part of its head: it lasts as long as a stream.
  return Buffer.from(id, 'latin1').toString('latin1')
}
