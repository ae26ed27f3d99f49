import { EventFault } from '../../base/errors/event-fault.ts'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { Change } from '../../directory/change.ts'
import type { Logout } from '../../directory/logout.ts'
import type { LogoutWriter } from '../../directory/logouts/logout-writer.ts'
import type { EventStreamStore } from '../../directory/postgres/event-streams.ts'
import type { SignalReports, TakeEvent } from '../../listeners/signals/signals.ts'
import type { States } from '../../listeners/signals/verification.ts'
import type { FindReceipt } from '../../stages/authenticate/event-token.ts'
import type { SecurityEvent, Transmitter, VerifyEvent } from '../../stages/authenticate/security-event.ts'
import type { ProcessContext } from './process-context.ts'
import type { UnmatchedSignals } from './unmatched-signals.ts'

export type TokenChange = Extract<Change, Readonly<{ kind: 'logout-token' }>>

export type SignalDependencies = Pick<ProcessContext, 'log' | 'metrics'> &
  Readonly<{
    /** Returns whether any of them ends something that had not ended. */
    begin: (logouts: readonly Logout[], told: Omit<TokenChange, 'kind'>) => boolean
    store: LogoutWriter['store']
    look: UnmatchedSignals['look']
    noteVerified: EventStreamStore['noteVerified']
    findReceipt: FindReceipt
    now: () => Date
  }>

export function createTakeEvent(
  verify: VerifyEvent,
  transmitters: ReadonlyMap<string, Transmitter>,
  states: ReadonlyMap<string, States>,
  dependencies: SignalDependencies,
): TakeEvent {
  const { begin, store, look, noteVerified, metrics, now } = dependencies
  metrics.expectEvents([...transmitters.keys()], now())
  return async (name, token, sender, id) => {
    const transmitter = transmitters.get(name)
    if (!transmitter) throw new EventFault('secret_wrong')
    const event = await verify(transmitter, token, id)
    const { logouts } = event
    let isNew = false
    if (logouts.length > 0) {
      isNew = begin(logouts, { token, transmitter: name })
      const received = logouts.map((logout) => ({ ...logout, ...sender, credential: 'security-event' as const }))
      await Promise.all(received.map(store))
    }
    const known = states.get(name)
    if (known && event.state !== undefined) {
      const askedAt = known.read(event.state)
      await noteVerified(name, askedAt)
      metrics.noteVerified(name, askedAt)
    }
    report(name, event, sender, dependencies)
    if (isNew) look(logouts, { transmitter: name, ...sender })
    return isNew
  }
}

function report(
  transmitter: string,
  { name: event, logouts, note, status }: SecurityEvent,
  sender: Parameters<TakeEvent>[2],
  { log, metrics, now }: SignalDependencies,
): void {
  const outcome = logouts.length > 0 ? 'stored' : event === 'verification' || status !== undefined ? 'noted' : 'ignored'
  metrics.countEvent(transmitter, event, outcome, note)
  metrics.noteEvent(transmitter, now())
  const facts = { transmitter, event, ...sender }
  log.info(note === 'none' ? facts : { ...facts, cause: note }, `security event ${outcome}`)
  if (note === 'without_subject') log.warn(facts, 'event names no subject; JWTs without sid are not refused')
  if (note === 'address') log.warn(facts, 'event names an address; JWTs without a verified one are not refused')
  if (status === undefined) return
  metrics.noteStreamStatus(transmitter, status, now())
  const isFlowing = status === 'enabled'
  log[isFlowing ? 'info' : 'warn']({ transmitter, status }, 'event stream changed by its transmitter')
}

export const reportSignals = ({
  log,
  metrics,
}: Pick<ProcessContext, 'log' | 'metrics'>): Omit<SignalReports, 'onProven'> => ({
  onRefused: (refusal, sender) => {
    const { exactCause: cause } = refusal
    metrics.countLogout(isOutage(refusal) ? 'unstored' : 'refused', cause)
    log.info({ ...sender, cause }, isOutage(refusal) ? 'logout not stored yet' : 'logout refused')
  },
  onEventRefused: (refusal, transmitter, sender) => {
    const { exactCause: cause } = refusal
    const isUnstored = refusal instanceof GatewayError && refusal.status >= 500
    metrics.countEvent(transmitter, 'unknown', isUnstored ? 'unstored' : 'refused', cause)
    log.info({ transmitter, ...sender, cause }, isUnstored ? 'security event not stored yet' : 'security event refused')
  },
})

const isOutage = ({ code }: GatewayError): boolean => code === 'directory_unavailable' || code === 'directory_read_only'
