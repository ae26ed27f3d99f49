export type Change = Readonly<{ kind: ChangedKind; id: number } | { kind: 'everything' }>

/**
 * `user` includes the user's roles and identities. `organization` is its data in each member's record. `members` is
 * only their number.
 */
export type ChangedKind = (typeof kinds)[number]

const kinds = ['user', 'token', 'organization', 'members', 'agent', 'cluster'] as const

export type Tag = `${ChangedKind}:${number}`

/**
 * Reads `{"kind":"user","id":7}` or `{"kind":"everything"}`. An unreadable message may mean any change, so it counts as
 * `everything`.
 */
export function parseChange(message: string): Change {
  try {
    const value: unknown = JSON.parse(message)
    if (typeof value === 'object' && value !== null && 'kind' in value && 'id' in value) {
      const kind = kinds.find((known) => known === value.kind)
      if (kind && typeof value.id === 'number' && Number.isSafeInteger(value.id)) return { kind, id: value.id }
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return { kind: 'everything' }
}

export const formatChange = (change: Change): string => JSON.stringify(change)

export type ChangeSource = Readonly<{
  name: 'postgres' | 'redis'
  isUp: () => boolean
  stop: () => Promise<void>
}>

export type ChangeHandlers = Readonly<{
  onChange: (change: Change) => void
  onConnected: () => void
  onSynced: (atMs: number) => void
  onLost: (error: unknown) => void
}>
