import type { Configuration } from '../../configuration/configuration.ts'
import type { Logout } from '../../directory/logout.ts'
import type { SignalReceivers, TakeLogout } from '../../listeners/signals/signals.ts'
import { createVerifyLogout, type VerifyLogout } from '../../stages/authenticate/logout-token.ts'
import { createVerifyEvent } from '../../stages/authenticate/security-event.ts'
import type { Issuers } from './issuers.ts'
import { createTakeEvent, type SignalDependencies, type TokenChange } from './security-events.ts'
import { hashPushSecrets, readStates, readTransmitters } from './transmitters.ts'

export type VerifyChange = (change: TokenChange) => Promise<readonly Logout[]>

export function receiveSignals(
  configuration: Configuration,
  issuers: Issuers,
  dependencies: SignalDependencies,
): Readonly<{ receivers: SignalReceivers; verify: VerifyChange }> {
  const { now, findReceipt } = dependencies
  const verifyLogout = createVerifyLogout(issuers.byName, now, findReceipt)
  const transmitters = readTransmitters(configuration, issuers.keysOf)
  const verifyEvent = createVerifyEvent(now, findReceipt)
  return {
    receivers: {
      takeLogout: createTakeLogout(verifyLogout, dependencies),
      takeEvent: createTakeEvent(verifyEvent, transmitters, readStates(configuration), dependencies),
      secrets: hashPushSecrets(configuration),
    },
    verify: async ({ token, transmitter: name }) => {
      if (name === undefined) return verifyLogout(token)
      const transmitter = transmitters.get(name)
      return transmitter ? (await verifyEvent(transmitter, token)).logouts : []
    },
  }
}

const createTakeLogout =
  (verify: VerifyLogout, { begin, store, look, log, metrics }: SignalDependencies): TakeLogout =>
  async (token, sender) => {
    const logouts = await verify(token, sender.clientAddress)
    const isNew = begin(logouts, { token })
    await Promise.all(logouts.map((logout) => store({ ...logout, ...sender, credential: 'logout-token' })))
    const { issuer = '', subject } = logouts[0] ?? {}
    metrics.countLogout('stored', subject === '' ? 'without_subject' : 'none')
    log.info({ issuer, ...sender }, 'logout stored')
    if (isNew) look(logouts, sender)
    if (subject === '') log.warn({ issuer, ...sender }, 'logout names no subject; JWTs without sid are not refused')
    return isNew
  }
