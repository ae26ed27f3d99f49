/** What can change under a cache: a row of the directory, or so much of it that counting is of no use. */
export type Change = Readonly<{ kind: ChangedKind; id: number } | { kind: 'everything' }>

/**
 * `user` covers the user's roles and identities as well; `organization` what every member's record says of it;
 * `members` only how many there are.
 */
export type ChangedKind = (typeof kinds)[number]

const kinds = ['user', 'token', 'organization', 'members', 'agent', 'cluster'] as const

/** The name under which caches hold what depends on one row. */
export type Tag = `${ChangedKind}:${number}`

/**
 * Reads a message, `{"kind":"user","id":7}` or `{"kind":"everything"}`. One that we cannot read tells of a change
 * that we do not understand, and so of everything.
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

/** The message that `parseChange` reads. */
export const formatChange = (change: Change): string => JSON.stringify(change)

/** Where changes are heard from; each says when it last knew that it had missed none. */
export type ChangeSource = Readonly<{
  name: 'postgres' | 'redis'
  isUp: () => boolean
  stop: () => Promise<void>
}>

export type ChangeHandlers = Readonly<{
  onChange: (change: Change) => void
  /** Listening begins, for the first time or again: whatever was held before may be out of date. */
  onConnected: () => void
  /** Every change that was committed before this moment (of the monotonic clock, in ms) has been heard. */
  onSynced: (atMs: number) => void
  /** Told once for each loss, with the cause. */
  onLost: (error: unknown) => void
}>
