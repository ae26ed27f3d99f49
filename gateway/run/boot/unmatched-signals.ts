import { guarded } from '../../base/fault/guarded.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { type Login, type Logout, receiptsOf } from '../../directory/logout.ts'
import { clientsOf } from '../../stages/authenticate/claims.ts'
import type { OpenDirectory } from './directory.ts'
import type { ProcessContext } from './process-context.ts'
import { listToldIssuers } from './transmitters.ts'

export type UnmatchedSignals = Readonly<{
  noteLogin: (login: Login) => void
  look: (logouts: readonly Logout[], facts: Readonly<Record<string, string>>) => void
}>

type UnmatchedDependencies = Pick<ProcessContext, 'log' | 'metrics'> &
  Readonly<{
    monotonicMs: () => number
    findByIdentity: OpenDirectory['directory']['findByIdentity']
    delayMs?: number
  }>

/** A user who never came here may be signed out as well, so an issuer can cause as many lines as it has users. */
const tellEveryMs = 60_000

/** More than a batch of logouts at the writer. Beyond it signals count as not known, so a flood asks for no more. */
const mostLookups = 100

/** Long after the answer, whose time must not tell which subjects are known. */
const lookAfterMs = 1_000

/**
 * Finds ends that match no identity and no JWT: the issuer probably names its users otherwise than its JWTs do. The
 * rule is one for the whole signal, since an event may name one session or address at several issuers.
 *
 * - It is *matched* if a JWT that this process saw has the session, the address or the `sub`, or if the directory has
 *   an identity of that subject. Each accepted JWT has an identity, on whichever replica it came.
 * - It *has no identity* if each end names a subject, at an issuer whose subject is `sub`. The directory then knows all
 *   subjects, so this alone is worth a warning.
 * - Else it is *not known*. The directory has neither sessions nor addresses, and with `claims.subject` it has the
 *   mapped subject alone: another replica may have seen the raw `sub`, or this process before it started.
 */
export function watchUnmatchedSignals(
  configuration: Configuration,
  { log, metrics, monotonicMs, findByIdentity, delayMs = lookAfterMs }: UnmatchedDependencies,
): UnmatchedSignals {
  const told = listToldIssuers(configuration)
  metrics.expectUnmatched([...told])
  const bySub = new Set(
    configuration.issuers.filter(({ claims }) => claims.subject === '/sub').map((one) => one.issuer),
  )
  const subjects = new RecentNames()
  const sessions = new RecentNames()
  const toldAtMs = new Map<string, number>()
  const isSeen = ({ issuer, subject, session }: Logout): boolean =>
    subject === '' ? sessions.has(issuer, session) : subjects.has(issuer, subject)
  const judge = async (ends: readonly Logout[]): Promise<'matched' | 'no_identity' | 'not_known'> => {
    if (ends.some(isSeen)) return 'matched'
    const named = ends.filter(({ issuer, subject }) => subject !== '' && told.has(issuer))
    try {
      const known = await Promise.all(named.map((one) => hasIdentity(one, findByIdentity)))
      if (known.includes(true)) return 'matched'
    } catch {
      return 'not_known'
    }
    return ends.every(({ issuer, subject }) => subject !== '' && bySub.has(issuer)) ? 'no_identity' : 'not_known'
  }
  const tell: Tell = async (ends, facts) => {
    const issuer = ends[0] ? nameOf(ends[0]) : ''
    const found = await judge(ends)
    if (found === 'matched') return
    metrics.countUnmatched(issuer, found)
    const nowMs = monotonicMs()
    if (found === 'not_known' || nowMs - (toldAtMs.get(issuer) ?? Number.NEGATIVE_INFINITY) < tellEveryMs) return
    toldAtMs.set(issuer, nowMs)
    log.warn({ issuer, ...facts }, 'logout matches no identity and no JWT')
  }
  const tellLater = createLater(delayMs, tell)
  return {
    noteLogin: ({ issuer, subject, mapped, address, session }) => {
      if (mapped !== undefined) subjects.add(issuer, subject)
      if (address) subjects.add(address.issuer, address.subject)
      if (session !== undefined) sessions.add(issuer, session)
    },
    look: (logouts, facts) => {
      const ends = logouts.filter(({ issuer }) => !issuer.endsWith(receiptsOf('')))
      const [first] = ends
      if (!first) return
      if (!tellLater(ends, facts)) metrics.countUnmatched(nameOf(first), 'not_known')
    },
  }
}

type Tell = (ends: readonly Logout[], facts: Readonly<Record<string, string>>) => Promise<void>

/** Tells after the delay, or says that too many wait. */
function createLater(delayMs: number, tell: Tell): (...told: Parameters<Tell>) => boolean {
  let waiting = 0
  return (...told) => {
    if (waiting === mostLookups) return false
    waiting += 1
    const run = (): Promise<void> =>
      tell(...told).finally(() => {
        waiting -= 1
      })
    setTimeout(guarded('timer', run), delayMs).unref()
    return true
  }
}

async function hasIdentity(
  { issuer, subject }: Logout,
  findByIdentity: UnmatchedDependencies['findByIdentity'],
): Promise<boolean> {
  const names = [issuer, clientsOf(issuer)].map((name) => ({ issuer: name, subject, assertions: undefined }))
  const found = await Promise.all(names.map((name) => findByIdentity(name)))
  return found.some((user) => user !== undefined)
}

/** That of addresses has a fragment. */
const nameOf = ({ issuer }: Logout): string => issuer.split('#')[0] ?? ''

/** A name that was dropped makes an end *not known*, no more. */
const namesInGeneration = 20_000

/** The last names of each issuer, in two generations, so that a name that comes again and again is kept. */
class RecentNames {
  readonly #issuers = new Map<string, { current: Set<string>; previous: ReadonlySet<string> }>()

  add(issuer: string, name: string): void {
    const known = this.#issuers.get(issuer)
    if (!known) this.#issuers.set(issuer, { current: new Set([name]), previous: new Set() })
    else if (known.current.add(name).size >= namesInGeneration) {
      known.previous = known.current
      known.current = new Set()
    }
  }

  has(issuer: string, name: string): boolean {
    const { current, previous } = this.#issuers.get(issuer) ?? {}
    return current?.has(name) === true || previous?.has(name) === true
  }
}
