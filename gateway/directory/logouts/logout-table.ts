// Logouts that issuers told of, held in memory by every replica and followed from the database.
import { type Login, type Logout, receiptsOf } from '../logout.ts'

type Mark = Readonly<{ at: number; expiresAt: number }>

const none: Mark = { at: Number.NEGATIVE_INFINITY, expiresAt: Number.NEGATIVE_INFINITY }

export type LogoutBounds = Readonly<{ entriesOfIssuer: number; sessionsOfSubject: number }>

export const usualBounds: LogoutBounds = { entriesOfIssuer: 100_000, sessionsOfSubject: 64 }

/** A tenth becomes one, so that the sort of 100,000 is paid once in 10,000 logouts. */
const keptShare = 0.9

/** All logouts in force. Beyond its bounds, the oldest ones become a wider one, so that none is forgotten. */
export class LogoutTable {
  readonly #issuers = new Map<string, IssuerLogouts>()
  readonly #bounds: LogoutBounds

  constructor(bounds: LogoutBounds = usualBounds) {
    this.#bounds = bounds
  }

  get size(): number {
    let size = 0
    for (const [name, issuer] of this.#issuers) if (!name.endsWith(receiptsOf(''))) size += issuer.size
    return size
  }

  sizeOf(issuer: string): number {
    return this.#issuers.get(issuer)?.size ?? 0
  }

  add(logout: Logout): boolean {
    let issuer = this.#issuers.get(logout.issuer)
    if (!issuer) {
      issuer = new IssuerLogouts(this.#bounds)
      this.#issuers.set(logout.issuer, issuer)
    }
    return issuer.add(logout)
  }

  hasEnded(login: Login): boolean {
    const { issuer, mapped, address, session, issuedAt, isOverlong } = login
    const at = Math.max(
      this.#findLatest(login, session),
      mapped === undefined ? none.at : this.#findLatest({ issuer, subject: mapped }, session),
      address ? this.#findLatest(address, session) : none.at,
    )
    if (at === none.at) return false
    return issuedAt === undefined || isOverlong || Math.floor(issuedAt) <= at
  }

  findMoment(issuer: string, subject: string): number | undefined {
    return this.#issuers.get(issuer)?.findMoment(subject)
  }

  #findLatest({ issuer, subject }: Pick<Login, 'issuer' | 'subject'>, session: string | undefined): number {
    return this.#issuers.get(issuer)?.findLatest(subject, session) ?? none.at
  }

  dropExpired(nowSeconds: number): void {
    for (const issuer of this.#issuers.values()) issuer.dropExpired(nowSeconds)
  }
}

class IssuerLogouts {
  readonly #bounds: LogoutBounds
  readonly #subjects = new Map<string, SubjectLogouts>()
  #sessions = new Map<string, Mark>()
  #everyone: Mark = none
  #size = 0

  constructor(bounds: LogoutBounds) {
    this.#bounds = bounds
  }

  get size(): number {
    return this.#size + (this.#everyone === none ? 0 : 1)
  }

  findLatest(subject: string, session: string | undefined): number {
    const ofSession = session === undefined ? none : (this.#sessions.get(session) ?? none)
    const ofSubject = this.#subjects.get(subject)?.findLatest(session) ?? none.at
    return Math.max(this.#everyone.at, ofSession.at, ofSubject)
  }

  findMoment(subject: string): number | undefined {
    return this.#subjects.get(subject)?.moment
  }

  add(logout: Logout): boolean {
    const { subject, session } = logout
    if (subject === '' && session === '') return this.#endEveryone(logout)
    if (logout.at <= this.#everyone.at) {
      this.#everyone = later(this.#everyone, logout)
      return false
    }
    const isNews = subject === '' ? this.#addSession(session, logout) : this.#addOfSubject(subject, session, logout)
    if (this.#size > this.#bounds.entriesOfIssuer) this.#widen()
    return isNews
  }

  dropExpired(nowSeconds: number): void {
    if (this.#everyone.expiresAt <= nowSeconds) this.#everyone = none
    this.#keep(({ expiresAt }) => expiresAt > nowSeconds)
  }

  #endEveryone(mark: Mark): boolean {
    const isNews = mark.at > this.#everyone.at
    this.#everyone = later(this.#everyone, mark)
    if (isNews) this.#keep(({ at }) => at > mark.at)
    return isNews
  }

  #addSession(session: string, mark: Mark): boolean {
    const known = this.#sessions.get(session) ?? none
    if (known === none) this.#size += 1
    this.#sessions.set(session, later(known, mark))
    return mark.at > known.at
  }

  #addOfSubject(name: string, session: string, mark: Mark): boolean {
    const subject = this.#subjects.get(name) ?? new SubjectLogouts()
    this.#subjects.set(name, subject)
    const { size } = subject
    const isNews = subject.add(session, mark, this.#bounds.sessionsOfSubject)
    this.#size += subject.size - size
    return isNews
  }

  #widen(): void {
    const marks = [...this.#sessions.values(), ...[...this.#subjects.values()].flatMap((subject) => subject.marks())]
    marks.sort((one, other) => other.at - one.at)
    const oldest = marks.slice(Math.floor(this.#bounds.entriesOfIssuer * keptShare))
    const [edge = none] = oldest
    const expiresAt = oldest.reduce((latest, mark) => Math.max(latest, mark.expiresAt), none.expiresAt)
    this.#endEveryone({ at: edge.at, expiresAt })
  }

  #keep(isKept: (mark: Mark) => boolean): void {
    this.#sessions = keepMarks(this.#sessions, isKept)
    this.#size = this.#sessions.size
    for (const [name, subject] of this.#subjects) {
      subject.keep(isKept)
      this.#size += subject.size
      if (subject.size === 0) this.#subjects.delete(name)
    }
  }
}

class SubjectLogouts {
  #whole: Mark = none
  #sessions: Map<string, Mark> | undefined
  #latestSession = none.at

  get size(): number {
    return (this.#whole === none ? 0 : 1) + (this.#sessions?.size ?? 0)
  }

  get moment(): number | undefined {
    return this.#whole === none ? undefined : this.#whole.at
  }

  marks(): readonly Mark[] {
    return [...(this.#whole === none ? [] : [this.#whole]), ...(this.#sessions?.values() ?? [])]
  }

  /** A JWT without a session may be of any session, so the logout of each one ends it. */
  findLatest(session: string | undefined): number {
    const ofSession = session === undefined ? this.#latestSession : (this.#sessions?.get(session)?.at ?? none.at)
    return Math.max(this.#whole.at, ofSession)
  }

  add(session: string, mark: Mark, mostSessions: number): boolean {
    const known = (session === '' ? this.#whole : this.#sessions?.get(session)) ?? none
    if (session === '') this.#whole = later(this.#whole, mark)
    else {
      this.#sessions ??= new Map()
      this.#sessions.set(session, later(known, mark))
      this.#latestSession = Math.max(this.#latestSession, mark.at)
      if (this.#sessions.size > mostSessions) this.#widen(this.#sessions)
    }
    return mark.at > known.at
  }

  keep(isKept: (mark: Mark) => boolean): void {
    if (!isKept(this.#whole)) this.#whole = none
    if (!this.#sessions) return
    this.#sessions = keepMarks(this.#sessions, isKept)
    this.#latestSession = [...this.#sessions.values()].reduce((latest, { at }) => Math.max(latest, at), none.at)
  }

  #widen(sessions: Map<string, Mark>): void {
    const [name, oldest] = [...sessions].reduce((one, other) => (other[1].at < one[1].at ? other : one))
    sessions.delete(name)
    this.#whole = later(this.#whole, oldest)
  }
}

const later = (one: Mark, other: Mark): Mark => ({
  at: Math.max(one.at, other.at),
  expiresAt: Math.max(one.expiresAt, other.expiresAt),
})

const keepMarks = (marks: ReadonlyMap<string, Mark>, isKept: (mark: Mark) => boolean): Map<string, Mark> =>
  new Map([...marks].filter(([, mark]) => isKept(mark)))
