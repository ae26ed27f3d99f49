import { EventFault } from '../../base/errors/event-fault.ts'
import { addressesOf, foldAddress, isEmail, isSubject } from './claims.ts'
import { type EndedLogin, isObject, type LoginBounds, type RawClaims } from './event-token.ts'

export type EventTarget = EndedLogin & Readonly<{ by: 'subject' | 'address' | 'session' }>

type User = Pick<EventTarget, 'by'> & Readonly<{ issuer: string; subject: string; bounds: LoginBounds }>

export type SubjectRules = Readonly<{
  bounds: ReadonlyMap<string, LoginBounds>
  ignoredMembers: ReadonlySet<string>
  mayBeSession: boolean
}>

const everySession = 'ALL'

/**
 * Reads the subject of an event (RFC 9493; OpenID Shared Signals Framework 1.0, 3). Every member of a complex subject
 * must match, so one that no JWT can be compared with is refused, unless the operator lets it be ignored. By session
 * `ALL` Keycloak means all of the user.
 */
export function readEventSubject(subject: unknown, rules: SubjectRules): readonly EventTarget[] {
  if (!isObject(subject)) throw new EventFault('subject_unsupported')
  if (subject.format === 'opaque' && rules.mayBeSession) return endSession(readSession(subject), rules)
  if (subject.format !== 'complex') return readUser(subject, rules).map((user) => toTarget(user, ''))
  const { format, user, session, ...others } = subject
  if (Object.keys(others).some((name) => !rules.ignoredMembers.has(name))) throw new EventFault('subject_unsupported')
  const sessionId = session === undefined ? '' : readSession(session)
  const ownSession = sessionId === everySession ? '' : sessionId
  if (user !== undefined) return readUser(user, rules).map((named) => toTarget(named, ownSession))
  if (sessionId === '') throw new EventFault('subject_unsupported')
  return endSession(sessionId, rules)
}

const toTarget = ({ by, issuer, subject, bounds }: User, session: string): EventTarget => ({
  by,
  login: { issuer, subject, session },
  ...bounds,
})

const endSession = (session: string, { bounds: known }: SubjectRules): readonly EventTarget[] =>
  [...known].map(([issuer, bounds]) => toTarget({ by: 'session', issuer, subject: '', bounds }, session))

function readUser(user: unknown, { bounds: known }: SubjectRules): readonly User[] {
  if (isObject(user) && user.format === 'iss_sub' && hasOnly(user, ['iss', 'sub'])) {
    const { iss, sub } = user
    if (!isSubject(iss) || !isSubject(sub)) throw new EventFault('subject_unsupported')
    const bounds = known.get(iss)
    if (bounds === undefined) throw new EventFault('other_issuer')
    return [{ by: 'subject', issuer: iss, subject: sub, bounds }]
  }
  if (isObject(user) && user.format === 'email' && hasOnly(user, ['email'])) {
    const { email } = user
    if (!isEmail(email)) throw new EventFault('subject_unsupported')
    const subject = foldAddress(email)
    return [...known].map(([issuer, bounds]): User => ({ by: 'address', issuer: addressesOf(issuer), subject, bounds }))
  }
  throw new EventFault('subject_unsupported')
}

function readSession(session: unknown): string {
  if (isObject(session) && session.format === 'opaque' && hasOnly(session, ['id']) && isSubject(session.id))
    return session.id
  throw new EventFault('subject_unsupported')
}

const hasOnly = (identifier: RawClaims, names: readonly string[]): boolean =>
  Object.keys(identifier).every((name) => name === 'format' || names.includes(name))
