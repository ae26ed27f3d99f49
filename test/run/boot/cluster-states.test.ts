import t from 'tap'
import type { ClusterStatus } from '../../../gateway/directory/postgres/cluster-store.ts'
import { readClusterStates } from '../../../gateway/run/boot/cluster-states.ts'

const now = new Date('2026-01-02T03:04:05Z')
const before = (seconds: number): Date => new Date(now.getTime() - seconds * 1_000)

const cluster = (id: number, more: Partial<ClusterStatus> = {}): ClusterStatus => ({
  id,
  organizationId: 1,
  slug: `cluster-${id}`,
  baseUrl: 'https://user:secret@cluster.example/private?key=secret',
  status: 'active',
  lastHeartbeatAt: before(10),
  ...more,
})

const read = (clusters: readonly ClusterStatus[], beats: Readonly<Record<number, Date>> = {}) =>
  readClusterStates(
    { list: async () => clusters },
    async (id) => beats[id],
    () => now,
    60_000,
  )

t.test('a cluster is judged by the newer of its heartbeats, that of the database and that of Redis', async (t) => {
  const rows = [cluster(1), cluster(2, { lastHeartbeatAt: before(90) }), cluster(3, { lastHeartbeatAt: null })]
  const told = async (beats?: Readonly<Record<number, Date>>) =>
    (await read(rows, beats)).clusters.map(({ state, lastHeartbeatAt }) => [state, lastHeartbeatAt])
  t.same(await told(), [
    ['active', before(10).toISOString()],
    ['offline', before(90).toISOString()],
    ['offline', undefined],
  ])
  t.same(await told({ 1: before(70), 2: before(5), 3: before(5) }), [
    ['active', before(10).toISOString()],
    ['active', before(5).toISOString()],
    ['active', before(5).toISOString()],
  ])
})

t.test('a suspended cluster is suspended, however it beats; one of another status is offline', async (t) => {
  const { clusters } = await read([cluster(1, { status: 'suspended' }), cluster(2, { status: 'deleting' })])
  t.same(
    clusters.map(({ state }) => state),
    ['suspended', 'offline'],
  )
})

t.test(
  'an address is told by scheme and host, and thousands of clusters by the first of them and their number',
  async (t) => {
    const { clusters, total } = await read(Array.from({ length: 3_000 }, (_, id) => cluster(id)))
    t.same([clusters.length, total], [200, 3_000])
    t.equal(clusters[0]?.origin, 'https://cluster.example')
    t.notMatch(JSON.stringify(clusters), /secret|private/)
  },
)
