import { EventFault } from '../../base/errors/event-fault.ts'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { guarded } from '../../base/fault/guarded.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import type { Change } from '../../directory/change.ts'
import { type Logout, type Logouts, noLogouts } from '../../directory/logout.ts'
import { followLogouts, type LogoutFollower } from '../../directory/logouts/follow-logouts.ts'
import { LogoutTable, usualBounds } from '../../directory/logouts/logout-table.ts'
import { LogoutWriter } from '../../directory/logouts/logout-writer.ts'
import type { LogoutStore } from '../../directory/postgres/logouts.ts'
import type { SignalReceivers } from '../../listeners/signals/signals.ts'
import { describeError } from '../../observe/log/log.ts'
import type { OpenDirectory } from './directory.ts'
import { isOutage } from './directory-state.ts'
import type { Issuers } from './issuers.ts'
import type { ProcessContext } from './process-context.ts'
import { receiveSignals, type VerifyChange } from './receive-signals.ts'
import type { SignalDependencies, TokenChange } from './security-events.ts'
import { listToldIssuers } from './transmitters.ts'
import { watchUnmatchedSignals } from './unmatched-signals.ts'

export type OpenLogouts = Logouts &
  Readonly<{
    hear: (change: Change) => void
    onEnded: (listener: () => void) => void
    receiveFrom: (issuers: Issuers) => SignalReceivers
    stop: () => Promise<void>
  }>

type LogoutDependencies = Pick<ProcessContext, 'log' | 'metrics'> &
  Readonly<{ now: () => Date; monotonicMs: () => number }>

const none: OpenLogouts = {
  ...noLogouts,
  hear: () => undefined,
  onEnded: () => undefined,
  receiveFrom: () => {
    const refuse = () => Promise.reject(new GatewayError('unknown_issuer'))
    return { takeLogout: refuse, takeEvent: refuse, secrets: new Map() }
  },
  stop: async () => undefined,
}

/** A logout that has expired harms nothing, and lasted as long as a JWT: minutes to hours. */
const sweepMs = 600_000

/** Each costs a signature. The database tells of one that is left out. */
const mostHeard = 1_000

export function openLogouts(
  configuration: Configuration,
  { stores: { logouts: store, eventStreams }, directory, rights, announce }: OpenDirectory,
  dependencies: LogoutDependencies,
): OpenLogouts {
  if (!store || !eventStreams || listToldIssuers(configuration).size === 0) return none
  const steadySeconds = createSteadySeconds(dependencies)
  const table = new LogoutTable()
  let onEnded = (): void => undefined
  const add = (logouts: readonly Logout[]): boolean => {
    const isNew = logouts.filter((logout) => table.add(logout)).length > 0
    if (isNew) onEnded()
    return isNew
  }
  const follower = follow(configuration, store, rights, dependencies, add)
  const keep = createKeep(store, table, steadySeconds, dependencies)
  let verify: VerifyChange | undefined
  const verifyNow = (change: TokenChange) => verify?.(change)
  const obey = createObey(verifyNow, add, dependencies)
  const sessionless = new Set<string>()
  const unmatched = watchUnmatchedSignals(configuration, { ...dependencies, findByIdentity: directory.findByIdentity })
  const sweeping = sweepExpired(table, steadySeconds)
  const watched = { inForce: () => table.size, unstored: keep.unstored, sessionless: () => sessionless }
  dependencies.metrics.watchLogouts(watched)
  return {
    requireLoggedIn: (login) => {
      const refuse = (): void => {
        unmatched.noteLogin(login)
        if (table.hasEnded(login)) throw new GatewayError('signed_out')
        if (login.session === undefined) sessionless.add(login.issuer)
      }
      const known = follower.requireFresh()
      return known === undefined ? refuse() : known.then(refuse)
    },
    hasEnded: (login) => table.hasEnded(login),
    unreadSinceMs: follower.unreadSinceMs,
    hear: (change) => {
      if (change.kind === 'logout-token') obey(change)
      else if (change.kind === 'logout') follower.look('changes')
      else if (change.kind === 'everything') follower.look('start')
    },
    onEnded: (listener) => {
      onEnded = listener
    },
    receiveFrom: (issuers) => {
      const begin = createBegin(add, announce)
      const findReceipt = (issuer: string, name: string) => table.findMoment(issuer, name)
      const { noteVerified } = eventStreams
      const keeping = { begin, store: keep.store, look: unmatched.look, noteVerified, findReceipt }
      const receiving = receiveSignals(configuration, issuers, { ...keeping, ...dependencies })
      verify = receiving.verify
      return receiving.receivers
    },
    stop: async () => {
      clearInterval(sweeping)
      follower.stop()
      await keep.stop()
    },
  }
}

function sweepExpired(table: LogoutTable, steadySeconds: () => number): NodeJS.Timeout {
  const sweep = guarded('timer', () => table.dropExpired(steadySeconds()))
  return setInterval(sweep, sweepMs).unref()
}

const createBegin =
  (add: (logouts: readonly Logout[]) => boolean, announce: OpenDirectory['announce']): SignalDependencies['begin'] =>
  (logouts, told) => {
    const isNew = add(logouts)
    announce({ kind: 'logout-token', ...told })
    return isNew
  }

/** A wall clock may run ahead for a while, and a logout that is dropped meanwhile would be missing afterwards. */
function createSteadySeconds({ now, monotonicMs }: Pick<LogoutDependencies, 'now' | 'monotonicMs'>): () => number {
  const aheadMs = now().getTime() - monotonicMs()
  return () => Math.min(now().getTime(), aheadMs + monotonicMs()) / 1000
}

function follow(
  { directory: { graceMs } }: Configuration,
  store: LogoutStore,
  { knownAt }: OpenDirectory['rights'],
  { log, monotonicMs }: LogoutDependencies,
  onLogouts: (logouts: readonly Logout[]) => void,
): LogoutFollower {
  return followLogouts({
    readSince: store.readSince,
    knownAt,
    monotonicMs,
    isCovered: (error, knownAtMs) => graceMs > 0 && isOutage(error) && monotonicMs() - knownAtMs <= graceMs,
    onLogouts,
    onFailed: (error) => log.debug({ error: describeError(error) }, 'logouts not read'),
  })
}

function createKeep(
  store: LogoutStore,
  table: LogoutTable,
  steadySeconds: () => number,
  { log, monotonicMs }: LogoutDependencies,
) {
  let isTold = false
  let sweptAtMs = Number.NEGATIVE_INFINITY
  const { sessionsOfSubject, entriesOfIssuer } = usualBounds
  const tidy = async (logouts: readonly Logout[]): Promise<void> => {
    for (const issuer of new Set(logouts.map((logout) => logout.issuer))) {
      const subjects = logouts.filter((logout) => logout.issuer === issuer && logout.session !== '')
      await store.widenSubjects(issuer, [...new Set(subjects.map(({ subject }) => subject))], sessionsOfSubject)
      if (table.sizeOf(issuer) > entriesOfIssuer * 0.9) await store.widenIssuer(issuer, entriesOfIssuer * 0.8)
    }
    if (monotonicMs() - sweptAtMs < sweepMs) return
    sweptAtMs = monotonicMs()
    await store.dropExpired(steadySeconds())
  }
  const writer = new LogoutWriter({
    write: async (logouts) => {
      await store.write(logouts)
      if (isTold) log.info({}, 'logouts stored again')
      isTold = false
      tidy(logouts).catch((error: unknown) => log.warn({ error: describeError(error) }, 'old logouts not widened'))
    },
    onFailed: (error) => {
      if (!isTold) log.error({ error: describeError(error) }, 'logouts not stored yet; they count in memory')
      isTold = true
    },
  })
  return {
    store: (logout: Parameters<LogoutWriter['store']>[0]) => writer.store(logout),
    unstored: () => writer.unstored,
    stop: () => writer.stop(),
  }
}

function createObey(
  verify: (change: TokenChange) => Promise<readonly Logout[]> | undefined,
  onLogouts: (logouts: readonly Logout[]) => void,
  { log }: LogoutDependencies,
): (change: TokenChange) => void {
  const heard: TokenChange[] = []
  let isBusy = false
  const work = async (): Promise<void> => {
    isBusy = true
    for (let change = heard.shift(); change !== undefined; change = heard.shift()) {
      try {
        onLogouts((await verify(change)) ?? [])
      } catch (error) {
        log.debug({ cause: nameCause(error) }, 'logout of another replica refused')
      }
    }
    isBusy = false
  }
  return (change) => {
    if (heard.length >= mostHeard) return
    heard.push(change)
    if (!isBusy) work().catch((error: unknown) => log.error({ error: describeError(error) }, 'logouts not read'))
  }
}

const nameCause = (error: unknown): string =>
  (error instanceof EventFault ? error : GatewayError.from(error)).exactCause
