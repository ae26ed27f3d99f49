import { isDeepStrictEqual } from 'node:util'
import { EventFault } from '../../base/errors/event-fault.ts'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Logout } from '../../directory/logout.ts'
import { isSeconds, isSubject } from './claims.ts'
import { readEventSubject } from './event-subject.ts'
import {
  boundLogouts,
  type EndedLogin,
  type FindReceipt,
  isForUsAlone,
  isObject,
  type LoginBounds,
  type RawClaims,
  readIssuedAt,
  readOnlyEvent,
  verifyEventToken,
} from './event-token.ts'
import type { KeySet } from './jwks/key-set.ts'

export type Transmitter = Readonly<{
  name: string
  issuer: string
  audiences: readonly string[]
  clockToleranceSeconds: number
  keys: KeySet
  speaksFor: ReadonlyMap<string, LoginBounds>
  ignoredMembers: ReadonlySet<string>
}>

export const streamStatuses = ['enabled', 'paused', 'disabled'] as const

export type StreamStatus = (typeof streamStatuses)[number]

export type SecurityEvent = Readonly<{
  name: EventName
  logouts: readonly Logout[]
  note: (typeof notes)[keyof typeof notes] | 'expired' | 'no_effect'
  status?: StreamStatus
  state?: string
}>

export type VerifyEvent = (transmitter: Transmitter, token: string, id?: string) => Promise<SecurityEvent>

const namesOfTypes = [
  ['caep', 'session-revoked'],
  ['caep', 'credential-change'],
  ['caep', 'token-claims-change'],
  ['risc', 'account-disabled'],
  ['ssf', 'verification'],
  ['ssf', 'stream-updated'],
] as const

export type EventName = (typeof namesOfTypes)[number][1] | 'other'

const findName = (type: string): EventName =>
  namesOfTypes.find(
    ([family, name]) => type === `https://schemas.openid.net/secevent/${family}/event-type/${name}`,
  )?.[1] ?? 'other'

/** Verifies a security event token (RFC 8417) by the rules of the OpenID Shared Signals Framework 1.0, 4.1. */
export const createVerifyEvent =
  (now: () => Date, findReceipt: FindReceipt): VerifyEvent =>
  (transmitter, token, id) =>
    verifyEventToken(token, (issuer) => {
      if (issuer !== transmitter.issuer) return undefined
      const read = (said: RawClaims, name: string): SecurityEvent => {
        if (id !== undefined && said.jti !== id) throw new EventFault('event_malformed')
        const nowSeconds = now().getTime() / 1000
        const bound: BoundLogouts = (saidAt, ended) =>
          boundLogouts({ issuer: transmitter.issuer, name, saidAt }, ended, nowSeconds, findReceipt)
        return readEvent(said, transmitter, nowSeconds, bound)
      }
      return { keys: transmitter.keys, types: ['secevent+jwt'], read }
    })

type BoundLogouts = (saidAt: number, ended: readonly EndedLogin[]) => readonly Logout[]

function readEvent(said: RawClaims, transmitter: Transmitter, nowSeconds: number, bound: BoundLogouts): SecurityEvent {
  if (!isForUsAlone(said.aud, transmitter.audiences)) throw new GatewayError('wrong_audience')
  if (Object.hasOwn(said, 'sub') || Object.hasOwn(said, 'exp')) throw new EventFault('claims_forbidden')
  const { name: type, event } = readOnlyEvent(said)
  const issuedAt = readIssuedAt(said, nowSeconds, transmitter.clockToleranceSeconds)
  const { sub_id: subject, toe } = said
  if (!isObject(subject)) throw new EventFault('subject_unsupported')
  if (event.subject !== undefined && !isDeepStrictEqual(event.subject, subject)) throw new EventFault('event_malformed')
  const name = findName(type)
  if (name === 'other') return { name: 'other', logouts: [], note: 'no_effect' }
  if (name === 'verification' || name === 'stream-updated') return readStreamEvent(name, event, subject)
  const moment = readMoment(event.event_timestamp) ?? readMoment(toe) ?? issuedAt
  const hasEffect = hasEnded(name, event)
  const targets = readEventSubject(subject, {
    bounds: transmitter.speaksFor,
    ignoredMembers: transmitter.ignoredMembers,
    mayBeSession: name === 'session-revoked',
  })
  if (!hasEffect) return { name, logouts: [], note: 'no_effect' }
  const current = bound(Math.min(moment, issuedAt), targets).filter(({ expiresAt }) => expiresAt > nowSeconds)
  return { name, logouts: current, note: current.length === 0 ? 'expired' : notes[targets[0]?.by ?? 'subject'] }
}

const notes = { subject: 'none', address: 'address', session: 'without_subject' } as const

function readMoment(value: unknown): number | undefined {
  if (value !== undefined && !isSeconds(value)) throw new GatewayError('time_malformed')
  return value
}

const endingChanges: readonly unknown[] = ['revoke', 'update', 'delete']

function hasEnded(name: Exclude<EventName, 'verification' | 'stream-updated' | 'other'>, event: RawClaims): boolean {
  switch (name) {
    case 'session-revoked':
    case 'account-disabled':
      return true
    case 'token-claims-change':
      if (!isObject(event.claims) || Object.keys(event.claims).length === 0) throw new EventFault('event_malformed')
      return true
    case 'credential-change': {
      const { credential_type: type, change_type: change } = event
      if (typeof type !== 'string' || !['create', ...endingChanges].includes(change))
        throw new EventFault('event_malformed')
      return change !== 'create'
    }
    default:
      return name satisfies never
  }
}

function readStreamEvent(
  name: 'verification' | 'stream-updated',
  { status: told, state }: RawClaims,
  { format, id }: RawClaims,
): SecurityEvent {
  if (format !== 'opaque' || !isSubject(id)) throw new EventFault('subject_unsupported')
  if (name === 'verification') {
    if (state !== undefined && typeof state !== 'string') throw new EventFault('event_malformed')
    return { name, logouts: [], note: 'none', ...(state !== undefined && { state }) }
  }
  const status = streamStatuses.find((known) => known === told)
  if (status === undefined) throw new EventFault('event_malformed')
  return { name, logouts: [], note: 'none', status }
}
