import type { Assignment, ListenerAddresses } from './messages.ts'

/** Where all workers of a group stand. */
export type GroupAddresses = Readonly<{
  /** What the next worker is to listen on. */
  listeners: () => Assignment['listeners']
  /** Takes the first worker's addresses as the group's; false for a worker that stands elsewhere. */
  accept: (addresses: ListenerAddresses) => boolean
}>

/**
 * Port 0 is one port for as long as any worker holds it, and another one when all had died: from then on the first
 * port is asked for by its number, under which nobody holds it.
 */
export function createStanding(configured: Assignment['listeners']): GroupAddresses {
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
      }
      return false
    },
  }
}

const isSamePlace = (one: ListenerAddresses, other: ListenerAddresses): boolean =>
  one.public.port === other.public.port && one.decision.port === other.decision.port
