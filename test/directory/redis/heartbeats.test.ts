import t from 'tap'
import type { ClusterRecord, Directory } from '../../../gateway/directory/directory.ts'
import { createReadHeartbeat, withHeartbeats } from '../../../gateway/directory/redis/heartbeats.ts'

const nowMs = 1_800_000_000_000
const ago = (ms: number): Date => new Date(nowMs - ms)

/** A cluster whose last heartbeat is older counts as offline. */
const aliveSince = ago(60_000)

/** A directory with one cluster and a Redis with one key; both take notes of who asks. */
function holdCluster(row: Date | null, value?: string) {
  const state = { row, value, isThere: true, isUp: true, isHeld: false, isSuspended: false }
  const asked: Date[] = []
  const keys: string[] = []
  let monotonicMs = 0
  let release: () => void = () => undefined
  const store = {
    findCluster: async (id, since): Promise<ClusterRecord | undefined> => {
      asked.push(since)
      const { isThere, row: lastHeartbeatAt, isSuspended } = state
      if (!isThere) return undefined
      return { id, organizationId: 1, slug: 'a', baseUrl: 'http://a', isSuspended, isDeleting: false, lastHeartbeatAt }
    },
    ping: () => Promise.reject(new Error('another ping')),
  } satisfies Pick<Directory, 'findCluster' | 'ping'>
  const directory = withHeartbeats(
    store as Partial<Directory> as Directory,
    createReadHeartbeat({
      read: async (key) => {
        keys.push(key)
        if (state.isHeld) await new Promise<void>((resolve) => (release = resolve))
        // The link to Redis gives undefined, too, where it cannot ask at once.
        return state.isUp ? state.value : undefined
      },
      maxEntries: 100,
      now: () => new Date(nowMs),
      monotonicMs: () => monotonicMs,
    }),
  )
  const find = async (): Promise<ClusterRecord | undefined> => {
    const found = await directory.findCluster(7, aliveSince, 1)
    return typeof found === 'object' ? found : undefined
  }
  return {
    state,
    asked,
    keys,
    directory,
    pass: (ms: number) => {
      monotonicMs += ms
    },
    release: () => release(),
    find,
    beat: async () => (await find())?.lastHeartbeatAt ?? null,
  }
}

t.test('the newer of two heartbeats counts, that of the row or that in Redis', async (t) => {
  const [older, newer] = [ago(50_000), ago(10_000)]
  t.same(await holdCluster(older, String(newer.getTime())).beat(), newer)
  t.same(await holdCluster(newer, String(older.getTime())).beat(), newer)
  t.same(await holdCluster(null, String(newer.getTime())).beat(), newer)
  t.same(await holdCluster(newer, undefined).beat(), newer)
  t.equal(await holdCluster(null, undefined).beat(), null)
})

t.test('Redis is asked for the cluster’s own key', async (t) => {
  const { find, keys } = holdCluster(null)
  await find()
  t.same(keys, ['sallyport:cluster:7:heartbeat'])
})

t.test('a heartbeat in Redis changes nothing else of the cluster', async (t) => {
  const { find, state } = holdCluster(ago(500_000), String(nowMs))
  state.isSuspended = true
  t.same(await find(), {
    id: 7,
    organizationId: 1,
    slug: 'a',
    baseUrl: 'http://a',
    isSuspended: true,
    isDeleting: false,
    lastHeartbeatAt: new Date(nowMs),
  })
})

t.test('another organization’s cluster asks Redis and the store no more than an absent one', async (t) => {
  const asked: number[] = []
  const store = {
    findCluster: async (id: number) => {
      asked.push(id)
      return id === 7 ? ('foreign' as const) : undefined
    },
  } satisfies Pick<Directory, 'findCluster'>
  const directory = withHeartbeats(store as Partial<Directory> as Directory, async (id) => {
    asked.push(-id)
    return undefined
  })
  t.equal(await directory.findCluster(7, aliveSince, 1), 'foreign')
  t.equal(await directory.findCluster(8, aliveSince, 1), undefined)
  t.same(asked, [7, 8])
})

t.test('if Redis says that the cluster lives, no young row is asked for', async (t) => {
  const { find, asked } = holdCluster(ago(500_000), String(nowMs))
  await find()
  t.same(asked, [new Date(0)], 'any row will do')
})

t.test('a young row is asked for before a cluster counts as silent in Redis and in the held row', async (t) => {
  const { find, asked, state } = holdCluster(ago(500_000), String(nowMs - 400_000))
  t.same((await find())?.lastHeartbeatAt, ago(400_000), 'and Redis still counts')
  t.same(asked, [new Date(0), aliveSince])
  state.row = ago(5)
  t.same((await find())?.lastHeartbeatAt, ago(5))
})

t.test('a malformed time does not count as a heartbeat', async (t) => {
  const row = ago(500_000)
  for (const value of [
    '',
    ' ',
    'now',
    '-1',
    '1e12',
    '1.8e12',
    '0x1',
    `${nowMs} `,
    `${nowMs}.5`,
    '9'.repeat(15),
    '9'.repeat(16),
  ])
    t.same(await holdCluster(row, value).beat(), row, JSON.stringify(value))
})

t.test('a heartbeat more than five minutes ahead of the gateway’s clock is ignored', async (t) => {
  const row = ago(500_000)
  t.same(await holdCluster(row, String(nowMs + 300_000)).beat(), new Date(nowMs + 300_000))
  t.same(await holdCluster(row, String(nowMs + 300_001)).beat(), row)
})

t.test('Redis is asked once a second at most, whatever it said', async (t) => {
  for (const value of [String(nowMs), 'nonsense', undefined]) {
    const { find, keys, pass, state } = holdCluster(ago(500_000), value)
    for (let count = 0; count < 10; count++) {
      await find()
      pass(99)
    }
    t.equal(keys.length, 1)
    state.value = String(nowMs - 1)
    pass(10)
    t.same((await find())?.lastHeartbeatAt, ago(1))
    t.equal(keys.length, 2)
  }
})

t.test('requests that come at once share the question', async (t) => {
  const { find, keys, state, release } = holdCluster(null, String(nowMs))
  state.isHeld = true
  const found = Promise.all(Array.from({ length: 100 }, find))
  while (keys.length === 0) await new Promise((resolve) => setImmediate(resolve))
  release()
  t.same(new Set((await found).map((cluster) => cluster?.lastHeartbeatAt?.getTime())), new Set([nowMs]))
  t.equal(keys.length, 1)
})

t.test('a Redis that is down leaves the row to decide', async (t) => {
  const { beat, state } = holdCluster(ago(30_000), String(nowMs))
  state.isUp = false
  t.same(await beat(), ago(30_000))
})

t.test('a cluster that is not there has no heartbeat, and Redis is not asked', async (t) => {
  const { find, state, keys } = holdCluster(null, String(nowMs))
  state.isThere = false
  t.equal(await find(), undefined)
  t.same(keys, [])
})

t.test('a cluster that goes between the two looks is gone', async (t) => {
  const { find, state, keys, release } = holdCluster(ago(500_000), '1')
  state.isHeld = true
  const found = find()
  while (keys.length === 0) await new Promise((resolve) => setImmediate(resolve))
  state.isThere = false
  release()
  t.equal(await found, undefined)
})

t.test('other calls of the directory pass through', async (t) => {
  await t.rejects(holdCluster(null).directory.ping(), /another ping/)
})
