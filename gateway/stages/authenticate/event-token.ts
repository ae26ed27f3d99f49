import { createHash } from 'node:crypto'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { parseShallow } from '../../base/lib/parse-shallow.ts'
import { type Logout, receiptsOf } from '../../directory/logout.ts'
import { isSeconds, isSubject } from './claims.ts'
import type { KeySet } from './jwks/key-set.ts'
import { chooseKey, type FindKey, parseObject, parseToken, readMediaType, verifySignature } from './signature.ts'

export type RawClaims = Readonly<Record<string, unknown>>

export type EventRules<Told> = Readonly<{
  keys: KeySet
  types: readonly string[]
  read: (said: RawClaims, name: string) => Told
}>

/**
 * Verifies a token that reports an event. Its claims are checked before its signature: a token that is refused anyway
 * asks for no key. Its header is not cached, since access tokens look for theirs there. The address of its sender is
 * given unless a secret has proven who it is.
 */
export async function verifyEventToken<Told>(
  text: string,
  findRules: (issuer: unknown) => EventRules<Told> | undefined,
  clientAddress?: string,
): Promise<Told> {
  const token = parseToken(text, eventLimitBytes)
  const said = parseClaims(token.payload)
  const rules = findRules(said.iss)
  if (!rules) throw new GatewayError('unknown_issuer')
  const { keys, types, read } = rules
  const told = read(said, createHash('sha256').update(token.payload).digest('base64url'))
  const wanted: readonly unknown[] = types
  const isType = (typ: unknown): boolean => wanted.includes(readMediaType(typ))
  const findKey: FindKey = (header, jws) => keys.findKey(header, jws, clientAddress)
  verifySignature(token, await chooseKey(token.headerText, findKey, isType))
  keys.noteProven(clientAddress)
  return told
}

/** Events nest about five levels (RFC 8417 2.2, RFC 9493); the bound keeps the reader's stack flat. */
const mostDepth = 32

/** An event names one subject, so no list of groups makes its token long. */
const eventLimitBytes = 8 * 1024

function parseClaims(payload: Buffer): RawClaims {
  try {
    parseShallow(payload.toString('utf8'), mostDepth)
  } catch (cause) {
    throw new GatewayError('malformed', { cause })
  }
  return parseObject(payload)
}

/** OpenID Connect Core 3.1.3.7, 3: a token that names another audience beside this one is not trusted either. */
export function isForUsAlone(aud: unknown, audiences: readonly string[]): boolean {
  const named: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  return named.length > 0 && named.every((name) => typeof name === 'string' && audiences.includes(name))
}

export function readOnlyEvent({ events, jti }: RawClaims): Readonly<{ name: string; event: RawClaims }> {
  if (!isSubject(jti) || !isObject(events)) throw new GatewayError('wrong_type')
  const [[name, event] = [], ...others] = Object.entries(events)
  if (name === undefined || others.length > 0 || !isObject(event)) throw new GatewayError('wrong_type')
  return { name, event }
}

export function readIssuedAt({ iat }: RawClaims, nowSeconds: number, toleranceSeconds: number): number {
  if (!isSeconds(iat)) throw new GatewayError('time_malformed')
  if (iat > nowSeconds + toleranceSeconds) throw new GatewayError('issued_in_future')
  return iat
}

/** Added to the life of a logout, so that no clock and no tolerance lets a JWT outlive it. */
const marginSeconds = 3_600

export type FindReceipt = (issuer: string, name: string) => number | undefined

export type EventMoment = Readonly<{ issuer: string; name: string; saidAt: number }>

/** `toleranceSeconds` is that of the issuer of the logins, whose clock wrote their `iat`. */
export type LoginBounds = Readonly<{ longestLifeSeconds: number; toleranceSeconds: number }>

export type EndedLogin = LoginBounds & Readonly<{ login: Omit<Logout, 'at' | 'expiresAt'> }>

/**
 * The cut-off is compared with `iat` of JWTs, so it is a moment of their issuer's clock. That clock may be ahead of the
 * gateway's by its tolerance. A cut-off at the receipt would leave a JWT from just before the logout in force.
 */
export function boundLogouts(
  { issuer, name, saidAt }: EventMoment,
  ended: readonly EndedLogin[],
  nowSeconds: number,
  findReceipt: FindReceipt,
): readonly Logout[] {
  const notes = receiptsOf(issuer)
  const moment = Math.floor(saidAt)
  const receivedAt = findReceipt(notes, name) ?? Math.floor(nowSeconds)
  const toLogout = ({ login, longestLifeSeconds, toleranceSeconds }: EndedLogin): Logout => {
    const at = Math.min(moment, receivedAt + toleranceSeconds)
    return { ...login, at, expiresAt: at + longestLifeSeconds + marginSeconds }
  }
  const longestLifeSeconds = Math.max(0, ...ended.map((one) => one.longestLifeSeconds))
  const note = { login: { issuer: notes, subject: name, session: '' }, longestLifeSeconds, toleranceSeconds: 0 }
  // Otherwise a replay has the same cut-off without a note.
  const isBounded = ended.some(({ toleranceSeconds }) => moment > receivedAt + toleranceSeconds)
  return (isBounded ? [...ended, note] : ended).map(toLogout)
}

export const isObject = (value: unknown): value is RawClaims =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
