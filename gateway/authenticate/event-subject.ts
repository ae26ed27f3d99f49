import { EventFault } from '../errors/event-fault.ts'
import { addressesOf, foldAddress, isEmail, isSubject } from './claims.ts'
import { isObject, type RawClaims } from './event-token.ts'

export type EventTarget = Readonly<{
  by: 'subject' | 'address' | 'session'
  login: Readonly<{ issuer: string; subject: string; session: string }>
  longestLifeSeconds: number
}>

type User = Pick<EventTarget, 'by' | 'longestLifeSeconds'> & Readonly<{ issuer: string; subject: string }>

export type SubjectRules = Readonly<{
  lives: ReadonlyMap<string, number>
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

const toTarget = ({ by, issuer, subject, longestLifeSeconds }: User, session: string): EventTarget => ({
  by,
  login: { issuer, subject, session },
  longestLifeSeconds,
})

const endSession = (session: string, { lives }: SubjectRules): readonly EventTarget[] =>
  [...lives].map(([issuer, longestLifeSeconds]) =>
    toTarget({ by: 'session', issuer, subject: '', longestLifeSeconds }, session),
  )

function readUser(user: unknown, { lives }: SubjectRules): readonly User[] {
  if (isObject(user) && user.format === 'iss_sub' && hasOnly(user, ['iss', 'sub'])) {
    const { iss, sub } = user
    if (!isSubject(iss) || !isSubject(sub)) throw new EventFault('subject_unsupported')
    const longestLifeSeconds = lives.get(iss)
    if (longestLifeSeconds === undefined) throw new EventFault('other_issuer')
    return [{ by: 'subject', issuer: iss, subject: sub, longestLifeSeconds }]
  }
  if (isObject(user) && user.format === 'email' && hasOnly(user, ['email'])) {
    const { email } = user
    if (!isEmail(email)) throw new EventFault('subject_unsupported')
    const subject = foldAddress(email)
    return [...lives].map(([issuer, longestLifeSeconds]): User => {
      const namespace = addressesOf(issuer)
      return { by: 'address', issuer: namespace, subject, longestLifeSeconds }
    })
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
