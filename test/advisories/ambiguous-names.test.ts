import t from 'tap'
import { createCachedDirectory } from '../../gateway/directory/cache/cached-directory.ts'
import { createFreshness } from '../../gateway/directory/cache/freshness.ts'
import type { Directory, UserRecord } from '../../gateway/directory/directory.ts'

const named = (id: number): UserRecord => ({
  ...{ id, email: `${id}@people.example`, emailVerified: true, username: 'alice' },
  ...{ firstName: null, lastName: null, fullName: null, userType: 'human', currentOrganizationId: null, roles: [] },
})

t.test('a second user of a name ends answers about the first within a second', async (t) => {
  let nowMs = 0
  const users = [named(1)]
  const store = {
    findNamedMember: async () => (users.length === 1 ? users[0] : undefined),
  } as unknown as Directory // nothing else is asked
  const freshness = createFreshness(() => nowMs)
  const { directory, forget } = createCachedDirectory(store, {
    ...{ maxEntries: 7, ttlMs: 60_000, freshness },
    ...{ onRead: () => undefined, announce: () => undefined, onForgotten: () => undefined },
  })
  const find = async (): Promise<number | undefined> => (await directory.findNamedMember(1, { username: 'alice' }))?.id
  t.equal(await find(), 1)
  users.push(named(2))
  forget({ kind: 'user', id: 2 })
  // The source of changes has missed none, so an entry lives as long as it may.
  nowMs = 999
  freshness.markSynced(nowMs)
  t.equal(await find(), undefined)
})
