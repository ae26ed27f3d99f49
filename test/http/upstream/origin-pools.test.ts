import t from 'tap'
import { createDnsCache } from '../../../gateway/http/upstream/dns-cache.ts'
import { IdleConnections, type Idling, restMs } from '../../../gateway/http/upstream/idle-connections.ts'
import { mostPools, OriginPools } from '../../../gateway/http/upstream/origin-pools.ts'

interface Fake extends Idling<Fake> {
  readonly name: string
}

const fake = (name: string, owner: number | string = '', served = 1): Fake => ({
  name,
  owner,
  served,
  previous: undefined,
  next: undefined,
  idleSinceMs: 0,
  isRested: false,
})

function openPools(dropped: string[] = []) {
  const names = createDnsCache({ cacheMs: 1_000 })
  return new OriginPools<Fake>({
    dns: names,
    clusterDns: names,
    monotonicMs: () => 0,
    peerOf: () => undefined,
    drop: ({ name }) => dropped.push(name),
  })
}

t.test('pools of addresses that are no longer used are dropped, and their idle connections close', async (t) => {
  const dropped: string[] = []
  const pools = openPools(dropped)
  const first = pools.find({ origin: 'http://192.0.2.1:1' })
  pools.keep(first, fake('idle'))
  for (let port = 2; port <= mostPools + 1; port++) pools.find({ origin: `http://192.0.2.1:${port}` })
  t.equal(pools.size, mostPools)
  t.same(dropped, ['idle'])
  t.equal(pools.keep(first, fake('late')), false, 'a busy connection of a dropped pool is not kept either')
  t.not(pools.find({ origin: 'http://192.0.2.1:1' }), first)
})

t.test('a pool in use outlives pools that are not', async (t) => {
  const pools = openPools()
  const used = pools.find({ origin: 'http://192.0.2.1:1' })
  for (let port = 2; port <= 2 * mostPools; port++) {
    pools.find({ origin: `http://192.0.2.1:${port}` })
    t.equal(pools.find({ origin: 'http://192.0.2.1:1' }), used)
  }
})

t.test('upstreams and clusters share no connection, even with one origin', async (t) => {
  const pools = openPools()
  const origin = 'http://192.0.2.1:1'
  const found = ['cluster:1', 'cluster:2', 'platform'].map((upstream) => pools.find({ origin, sharing: { upstream } }))
  t.equal(new Set(found).size, 3)
  t.equal(pools.find({ origin, sharing: { upstream: 'cluster:2' } }), found[1])
})

t.test('the connection that has been idle for longest makes room, whatever its origin', async (t) => {
  let nowMs = 0
  const names = createDnsCache({ cacheMs: 1_000 })
  const pools = new OriginPools<Fake>({
    dns: names,
    clusterDns: names,
    monotonicMs: () => nowMs,
    peerOf: () => undefined,
    drop: () => undefined,
  })
  const [first, second] = [1, 2].map((port) => pools.find({ origin: `http://192.0.2.1:${port}` }))
  if (!first || !second) throw new Error('no pools')
  pools.keep(second, fake('older'))
  nowMs = 1
  pools.keep(first, fake('younger'))
  t.equal(pools.oldestIdle()?.name, 'older')
})

t.test('a connection serves its own organization at once, and another after a rest', async (t) => {
  const idle = new IdleConnections<Fake>()
  idle.add(fake('of 7', 7), 100)
  idle.add(fake('of 8', 8), 101)
  t.equal(idle.take(9, false, 100 + restMs - 1), undefined)
  t.equal(idle.take(8, false, 101)?.name, 'of 8')
  t.equal(idle.take(9, false, 100 + restMs)?.name, 'of 7')
  t.equal(idle.oldest, undefined)
})

t.test('an organization gets its own rested connection rather than another’s', async (t) => {
  const idle = new IdleConnections<Fake>()
  idle.add(fake('own', 7), 0)
  idle.add(fake('foreign', 8), 1)
  t.equal(idle.take(7, false, 1_000)?.name, 'own')
  t.equal(idle.take(7, false, 1_000)?.name, 'foreign')
})

t.test('with isolate a connection serves no other organization, however long it rests', async (t) => {
  const idle = new IdleConnections<Fake>()
  idle.add(fake('of 7', 7), 0)
  t.equal(idle.take(8, true, 1e9), undefined)
  t.equal(idle.take(7, true, 1e9)?.name, 'of 7')
})

t.test('a connection rests now and then, even for its own organization', async (t) => {
  const idle = new IdleConnections<Fake>()
  idle.add(fake('after 100 answers', 7, 100), 0)
  t.equal(idle.take(7, false, restMs - 1), undefined)
  t.equal(idle.take(7, false, restMs)?.name, 'after 100 answers')
  idle.add(fake('after 101 answers', 7, 101), 0)
  t.equal(idle.take(7, false, 0)?.name, 'after 101 answers')
})

t.test('a connection that leaves is offered to no request, fresh or rested', async (t) => {
  const idle = new IdleConnections<Fake>()
  const all = [fake('a', 7), fake('b', 7), fake('c', 8)]
  for (const connection of all) idle.add(connection, 0)
  for (const connection of all.slice(0, 2)) idle.remove(connection)
  t.equal(idle.take(7, true, 0), undefined)
  t.same(
    idle.all().map(({ name }) => name),
    ['c'],
  )
  t.equal(idle.take(9, false, restMs)?.name, 'c')
  for (const connection of all) idle.remove(connection)
  t.equal(idle.oldest, undefined)
})
