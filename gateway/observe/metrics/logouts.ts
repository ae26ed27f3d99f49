import { Counter, Gauge, type Registry } from 'prom-client'

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

export function createLogoutMetrics(registers: Registry[]): LogoutMetrics {
  const logouts = new Counter({
    name: 'sallyport_logouts_total',
    help: 'Requests of issuers at the listener for signals, by outcome and cause: stored, unstored or refused.',
    labelNames: ['outcome', 'cause'],
    registers,
  })
  for (const cause of ['none', 'without_subject']) logouts.inc({ outcome: 'stored', cause }, 0)
  logouts.inc({ outcome: 'unstored', cause: 'directory_unavailable' }, 0)
  let watched: WatchedLogouts | undefined
  new Gauge({
    name: 'sallyport_logouts_in_force',
    help: 'Logouts of subjects and sessions that JWTs are compared with.',
    registers,
    collect() {
      this.set(watched?.inForce() ?? 0)
    },
  })
  new Gauge({
    name: 'sallyport_logouts_unstored',
    help: 'Logouts that count in memory and wait for the database.',
    registers,
    collect() {
      this.set(watched?.unstored() ?? 0)
    },
  })
  new Gauge({
    name: 'sallyport_logins_without_session',
    help: '1 if a JWT of the issuer without sid was accepted, so that a logout that names a session alone misses it.',
    labelNames: ['issuer'],
    registers,
    collect() {
      for (const issuer of watched?.sessionless() ?? []) this.set({ issuer }, 1)
    },
  })
  const unmatched = new Counter({
    name: 'sallyport_signals_unmatched_total',
    help: 'Stored logouts and security events that end no known login, by issuer of the login and cause: no_identity if none can be, or not_known.',
    labelNames: ['issuer', 'cause'],
    registers,
  })
  return {
    expectUnmatched: (issuers) => {
      for (const issuer of issuers)
        for (const cause of ['no_identity', 'not_known']) unmatched.inc({ issuer, cause }, 0)
    },
    countUnmatched: (issuer, cause) => unmatched.inc({ issuer, cause }),
    countLogout: (outcome, cause) => logouts.inc({ outcome, cause }),
    watchLogouts: (watch) => {
      watched = watch
    },
  }
}
