import type { ValidationMessage } from '../../base/errors/gateway-error.ts'
import { invalid, type JsonObject } from './read-body.ts'

export type TokenRequest = Readonly<{ name: string | null; scope: string; expiresAt: Date | null }>

export type ExpiryBounds = Readonly<{ now: Date; latest: Date | null }>

const known = new Set(['name', 'scope', 'expiresAt'])

/** SPEC section 6, and the `varchar(255)` of AdonisJS. */
const nameLimit = 255

export function readTokenRequest(
  body: JsonObject,
  scopes: readonly string[],
  bounds: ExpiryBounds,
  earlier: readonly ValidationMessage[],
): TokenRequest {
  const messages = [...earlier]
  const complain = (field: string, rule: string, message: string): null => {
    messages.push({ field, rule, message })
    return null
  }
  for (const field of Object.keys(body)) if (!known.has(field)) complain(field, 'unknown', 'This field is not known.')
  const request = {
    name: readName(body.name, complain),
    scope: readScope(body.scope, scopes, complain) ?? '',
    expiresAt: readExpiry(body.expiresAt, bounds, complain),
  }
  if (messages.length > 0) throw invalid(messages)
  return request
}

type Complain = (field: string, rule: string, message: string) => null

function readName(value: unknown, complain: Complain): string | null {
  if (value === undefined || value === null) return null
  // PostgreSQL cannot store NUL, and other control characters are invisible.
  if (typeof value !== 'string' || /\p{Cc}/u.test(value) || !value.isWellFormed())
    return complain('name', 'type', 'The name must be a string of visible characters.')
  if ([...value].length > nameLimit)
    return complain('name', 'maxLength', `The name has at most ${nameLimit} characters.`)
  return value
}

function readScope(value: unknown, scopes: readonly string[], complain: Complain): string | null {
  if (value === undefined || value === null) return complain('scope', 'required', 'The scope is required.')
  if (typeof value === 'string' && scopes.includes(value)) return value
  return complain('scope', 'enum', `The scope must be one of ${scopes.join(', ')}.`)
}

// RFC 3339 with a time zone: a local time would mean another moment on another machine.
const dateTime = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i

function readExpiry(value: unknown, { now, latest }: ExpiryBounds, complain: Complain): Date | null {
  if (value === undefined || value === null) return latest
  if (typeof value !== 'string') return complain('expiresAt', 'type', 'The expiry must be a string.')
  const at = dateTime.test(value) ? new Date(value) : undefined
  // `Date` turns the 30th of February into a day in March, so the day is checked too.
  if (at === undefined || Number.isNaN(at.getTime()) || !isRealDay(value))
    return complain('expiresAt', 'date', 'The expiry must be a date and time with a time zone (RFC 3339).')
  if (at <= now) return complain('expiresAt', 'future', 'The expiry must lie in the future.')
  if (latest !== null && at > latest)
    return complain('expiresAt', 'max', 'The expiry must not lie after that of the token which mints.')
  return at
}

function isRealDay(value: string): boolean {
  const [year = 0, month = 0, day = 0] = value.slice(0, 10).split('-').map(Number)
  return day <= new Date(Date.UTC(year, month, 0)).getUTCDate()
}
