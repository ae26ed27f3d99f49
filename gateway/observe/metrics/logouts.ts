import type { Meter } from './meter.ts'

export type LogoutMetrics = Readonly<{
  countLogout: (outcome: 'stored' | 'unstored' | 'refused', cause: string) => void
  watchLogouts: (watched: WatchedLogouts) => void
  expectUnmatched: (issuers: readonly string[]) => void
  countUnmatched: (issuer: string, cause: UnmatchedCause) => void
}>

export type UnmatchedCause = 'no_identity' | 'not_known'

type WatchedLogouts = Readonly<{
  inForce: () => number
  unstored: () => number
  sessionless: () => Iterable<string>
}>

export function createLogoutMetrics({ counter, watch, collect }: Meter): LogoutMetrics {
  const logouts = counter(
    'sallyport_logouts_total',
    'Requests of issuers at the listener for signals, by outcome and cause: stored, unstored or refused.',
    'outcome',
    'cause',
  )
  for (const cause of ['none', 'without_subject']) logouts('stored', cause)
  logouts('unstored', 'directory_unavailable')
  const watchInForce = watch(
    'sallyport_logouts_in_force',
    'Logouts of subjects and sessions that JWTs are compared with.',
  )
  const watchUnstored = watch('sallyport_logouts_unstored', 'Logouts that count in memory and wait for the database.')
  let sessionless: WatchedLogouts['sessionless'] = () => []
  collect(
    'sallyport_logins_without_session',
    '1 if a JWT of the issuer without sid was accepted, so that a logout that names a session alone misses it.',
    ['issuer'],
    (gauge) => {
      for (const issuer of sessionless()) gauge.set({ issuer }, 1)
    },
  )
  const unmatched = counter(
    'sallyport_signals_unmatched_total',
    'Stored logouts and security events that end no known login, by issuer of the login and cause: no_identity if none can be, or not_known.',
    'issuer',
    'cause',
  )
  return {
    expectUnmatched: (issuers) => {
      for (const issuer of issuers) for (const cause of ['no_identity', 'not_known']) unmatched(issuer, cause)
    },
    countUnmatched: (issuer, cause) => {
      unmatched(issuer, cause).count += 1
    },
    countLogout: (outcome, cause) => {
      logouts(outcome, cause).count += 1
    },
    watchLogouts: (watched) => {
      watchInForce(watched.inForce)
      watchUnstored(watched.unstored)
      sessionless = watched.sessionless
    },
  }
}
