import { listLevels, type ResourceKind } from '../policy/resource-kind.ts'
import type { ResourceRecord } from './directory.ts'

export type Change = Readonly<
  | { kind: ChangedKind; id: number }
  | { kind: 'everything' }
  | { kind: 'logout-token'; token: string; transmitter?: string }
>

/**
 * `user` includes the user's roles and identities. `organization` is its data in each member's record. `members` is
 * only their number. `session-end` is an order of an operator, and `logout` one of an issuer; neither concerns a cache.
 */
export type ChangedKind = (typeof kinds)[number] | ResourceChange

export type ResourceChange = `resource/${string}`

const kinds = ['user', 'token', 'organization', 'members', 'agent', 'cluster', 'session-end', 'logout'] as const

export type Tag = `${ChangedKind}:${number}`

/** The kind and the id of a tag. */
export function splitTag(tag: Tag): readonly [kind: string, id: number] {
  const end = tag.lastIndexOf(':')
  return [tag.slice(0, end), Number(tag.slice(end + 1))]
}

const anyChange: readonly Change[] = [{ kind: 'everything' }]

const unreadable: readonly Change[] = [{ kind: 'everything' }]

/** Whether `parseChanges` could not read the message. */
export const isUnreadable = (changes: readonly Change[]): boolean => changes === unreadable

/**
 * Reads `{"kind":"user","id":7}`, `{"kind":"user","ids":[7,8]}`, `{"kind":"everything"}` or a logout token or a
 * security event token, whose own signature is verified. An unreadable message may mean any change, so it counts as
 * `everything`.
 */
export function parseChanges(message: string): readonly Change[] {
  try {
    const value: unknown = JSON.parse(message)
    if (typeof value !== 'object' || value === null || !('kind' in value)) return unreadable
    if (value.kind === 'everything') return anyChange
    if (value.kind === 'logout-token' && 'token' in value && typeof value.token === 'string') {
      const { token } = value
      if (!('transmitter' in value)) return [{ kind: 'logout-token', token }]
      if (typeof value.transmitter === 'string')
        return [{ kind: 'logout-token', token, transmitter: value.transmitter }]
    }
    const kind = kinds.find((known) => known === value.kind) ?? readResourceChange(value.kind)
    const ids: unknown = 'ids' in value ? value.ids : 'id' in value ? [value.id] : undefined
    if (kind && isIdList(ids)) return ids.map((id) => ({ kind, id }))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return unreadable
}

const readResourceChange = (kind: unknown): ResourceChange | undefined =>
  typeof kind === 'string' && /^resource\/[a-z][a-z0-9_]{0,30}$/.test(kind)
    ? // The pattern proves the prefix.
      (kind as ResourceChange)
    : undefined

export const concernsResources = (kind: Change['kind']): kind is ResourceChange => kind.startsWith('resource/')

export const tagsOfResource = (kind: ResourceKind, { levels }: ResourceRecord): readonly Tag[] =>
  listLevels(kind).map(({ name }, index): Tag => `resource/${name}:${levels[index]?.organizationId ?? 0}`)

const isIdList = (ids: unknown): ids is readonly number[] =>
  Array.isArray(ids) && ids.length > 0 && ids.every((id) => Number.isSafeInteger(id))

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
  onUnreadable: () => void
}>
