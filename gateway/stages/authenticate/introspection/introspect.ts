import { GatewayError, type RefusalCause } from '../../../base/errors/gateway-error.ts'
import type { Attempts } from '../../../base/lib/attempts.ts'
import { createBoundedMap } from '../../../base/lib/bounded-map.ts'
import { readNetwork } from '../../../base/network/network.ts'
import { longestNegativeMs } from '../../../rights/paces.ts'
import { type Claims, readClaims, requireInForce } from '../claims.ts'
import type { Clock } from '../clock.ts'
import { requireCarrier } from '../credential.ts'
import { OpaqueProof, toCredential } from '../principal.ts'
import type { Introspect, Issuer, VerifiedToken } from '../verify.ts'
import type { IntrospectionLane } from './lane.ts'
import type { AskAboutToken, IntrospectionAnswer } from './question.ts'

export type IntrospectionOutcome = 'active' | 'inactive' | 'refused' | 'failed' | 'shed' | 'throttled'

export type IntrospectOptions = Readonly<{
  ask: AskAboutToken
  lane: Pick<IntrospectionLane, 'run'>
  cacheMs: number
  maxEntries: number
  requireTokenType: boolean
  attempts: Attempts | undefined
  clock: Pick<Clock, 'now' | 'monotonicMs'>
  onRead: (result: 'hit' | 'negative_hit' | 'miss' | 'coalesced') => void
  onOutcome: (outcome: IntrospectionOutcome, error?: GatewayError) => void
}>

type Held = Readonly<{ claims: Claims; askedAtMs: number; untilMs: number }>

type Refused = Readonly<{ cause: RefusalCause; untilMs: number }>

export function createIntrospect(issuer: Issuer, options: IntrospectOptions) {
  const { cacheMs, maxEntries, onRead } = options
  const { monotonicMs } = options.clock
  const active = createBoundedMap<Held>(maxEntries)
  // Apart, so that guesses evict no token in use.
  const refused = createBoundedMap<Refused>(maxEntries)
  const pending = new Map<string, Promise<Held>>()
  const askOnce = createAskOnce(issuer, options)
  const find = (key: string, token: string, client: string | undefined, subject?: string): Held | Promise<Held> => {
    const nowMs = monotonicMs()
    const held = active.get(key)
    if (held && nowMs < held.untilMs) {
      onRead('hit')
      return held
    }
    const known = refused.get(key)
    if (known && nowMs < known.untilMs) {
      onRead('negative_hit')
      throw new GatewayError(known.cause)
    }
    const shared = pending.get(key)
    onRead(shared === undefined ? 'miss' : 'coalesced')
    if (shared !== undefined) return shared
    const asked = askOnce(token, client, subject)
      .then(
        (fresh) => {
          active.set(key, fresh)
          return fresh
        },
        (error: GatewayError) => {
          const untilMs = nowMs + Math.min(cacheMs, longestNegativeMs)
          if (error.status === 401) refused.set(key, { cause: error.exactCause, untilMs })
          throw error
        },
      )
      .finally(() => pending.delete(key))
    pending.set(key, asked)
    return asked
  }
  const toVerified = ({ claims, askedAtMs }: Held, key: string, token: string): VerifiedToken => {
    const askAgain = async () => toVerified(await find(key, token, undefined, claims.subject), key, token)
    const proof = new OpaqueProof(issuer.trust, claims, { askedAtMs, freshMs: cacheMs, askAgain })
    return { issuer, claims, credential: toCredential(claims), keysVersion: undefined, proof }
  }
  const introspect: Introspect = (key, token, carrier, clientAddress) => {
    // Before the question: a token in another carrier may be meant for another issuer.
    if (carrier !== undefined) requireCarrier(issuer.trust, carrier)
    const held = find(key, token, clientAddress)
    return held instanceof Promise ? held.then((fresh) => toVerified(fresh, key, token)) : toVerified(held, key, token)
  }
  return { introspect, countHeld: () => active.size() + refused.size() }
}

function createAskOnce({ trust }: Issuer, options: IntrospectOptions) {
  const { ask, lane, cacheMs, requireTokenType, attempts, clock, onOutcome } = options
  const { now, monotonicMs } = clock
  const spend = (owner: string): void => {
    const seconds = attempts?.take(owner)
    if (seconds !== undefined) throw new GatewayError('too_many_attempts', { retryAfter: String(seconds) })
  }
  const read = (answer: IntrospectionAnswer, askedAtMs: number): Held => {
    if (answer.active !== true) throw new GatewayError('token_inactive')
    const claims = readClaims(answer, trust)
    requireAccessToken(answer, requireTokenType)
    const nowMs = now().getTime()
    requireInForce(claims, trust, Math.floor(nowMs / 1000))
    const leftMs = claims.expiresAt * 1000 - nowMs
    return { claims, askedAtMs, untilMs: Math.min(askedAtMs + cacheMs, monotonicMs() + leftMs) }
  }
  return async (token: string, clientAddress: string | undefined, subject: string | undefined): Promise<Held> => {
    const owner = clientAddress === undefined ? undefined : readNetwork(clientAddress)
    const askedAtMs = monotonicMs()
    try {
      if (owner !== undefined) spend(owner)
      const held = read(await lane.run(owner, (withinMs) => ask(token, withinMs), subject), askedAtMs)
      if (owner !== undefined) attempts?.giveBack(owner)
      onOutcome('active')
      return held
    } catch (caught) {
      const error = GatewayError.from(caught)
      if (error.status === 503 && owner !== undefined) attempts?.giveBack(owner)
      onOutcome(nameOutcome(error), error)
      throw error
    }
  }
}

function nameOutcome({ exactCause }: GatewayError): IntrospectionOutcome {
  switch (exactCause) {
    case 'token_inactive':
      return 'inactive'
    case 'too_many_attempts':
      return 'throttled'
    case 'lookups_busy':
      return 'shed'
    case 'issuer_unavailable':
      return 'failed'
    default:
      return 'refused'
  }
}

/**
 * An endpoint may know refresh tokens too (RFC 7662 2.1), which are active as well. Some issuers mark the access token
 * by `token_type` (RFC 7662 2.2), Keycloak also by `typ`, Ory by `token_use`.
 */
function requireAccessToken({ token_type: type, token_use: use, typ }: IntrospectionAnswer, isMarkRequired: boolean) {
  const marks = [isMark(type, ['bearer']), isMark(use, ['access', 'access_token']), isMark(typ, accessTypes)]
  if (marks.includes(false) || (isMarkRequired && !marks.includes(true))) throw new GatewayError('not_an_access_token')
}

/** RFC 9068 4: `application/` may be left out. */
const accessTypes = ['bearer', 'at+jwt', 'application/at+jwt']

const isMark = (value: unknown, accepted: readonly string[]): boolean | undefined =>
  value === undefined ? undefined : typeof value === 'string' && accepted.includes(value.toLowerCase())
