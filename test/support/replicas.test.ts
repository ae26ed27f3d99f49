import t from 'tap'
import { call } from './client.ts'
import { withOwner } from './owner.ts'
import { type Replica, startReplica } from './replicas.ts'

const isAlive = ({ admin }: Replica): Promise<boolean> =>
  call(admin, { path: '/healthz' }).then(
    ({ status }) => status === 200,
    () => false,
  )

t.test('replicas run side by side, each with its log, until they are stopped, killed or left', async (t) => {
  const replicas = await withOwner(async (owner) => {
    const [stopped, killed, left] = await Promise.all([1, 2, 3].map(() => startReplica(owner, {})))
    if (!stopped || !killed || !left) throw new Error('three were started')
    t.same(await Promise.all([stopped, killed, left].map(isAlive)), [true, true, true])
    t.equal(new Set([stopped, killed, left].map(({ pid }) => pid)).size, 3)
    t.match(left.readLog(), /"listening"/)
    t.equal(await stopped.stop(), 0)
    await killed.kill()
    t.same(await Promise.all([stopped, killed, left].map(isAlive)), [false, false, true])
    return [stopped, killed, left]
  })
  t.same(await Promise.all(replicas.map(isAlive)), [false, false, false])
})

t.test('a replica that does not start says why', async (t) => {
  await t.rejects(startReplica(t, { settings: { frobnicate: 1 } }), /does not know "frobnicate"/)
})
