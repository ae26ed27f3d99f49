import type { Assignment, ListenerAddresses } from './messages.ts'

export type GroupAddresses = Readonly<{
  listeners: () => Assignment['listeners']
  accept: (addresses: ListenerAddresses) => boolean
}>

/**
 * Port 0 stays the same port as long as one worker holds it. After all have died, the first port is requested by its
 * number.
 */
export function createGroupAddresses(configured: Assignment['listeners']): GroupAddresses {
  let listeners = configured
  let group: ListenerAddresses | undefined
  return {
    listeners: () => listeners,
    accept: (addresses) => {
      group ??= addresses
      if (isSamePlace(addresses, group)) return true
      listeners = {
        public: { ...listeners.public, port: group.public.port },
        decision: { ...listeners.decision, port: group.decision.port },
        ...(listeners.signals && group.signals && { signals: { ...listeners.signals, port: group.signals.port } }),
      }
      return false
    },
  }
}

const isSamePlace = (one: ListenerAddresses, other: ListenerAddresses): boolean =>
  one.public.port === other.public.port &&
  one.decision.port === other.decision.port &&
  one.signals?.port === other.signals?.port
