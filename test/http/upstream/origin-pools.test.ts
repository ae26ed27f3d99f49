import t from 'tap'
import { createDnsCache } from '../../../gateway/http/upstream/dns-cache.ts'
import { mostPools, OriginPools } from '../../../gateway/http/upstream/origin-pools.ts'

t.test('pools of addresses that are no longer used are dropped, and their idle connections close', async (t) => {
  const dropped: string[] = []
  const names = createDnsCache({ cacheMs: 1_000 })
  const pools = new OriginPools<string>({
    dns: names,
    clusterDns: names,
    peerOf: () => undefined,
    drop: (name) => dropped.push(name),
  })
  const first = pools.find({ origin: 'http://192.0.2.1:1' })
  pools.keep(first, 'idle')
  for (let port = 2; port <= mostPools + 1; port++) pools.find({ origin: `http://192.0.2.1:${port}` })
  t.equal(pools.size, mostPools)
  t.same(dropped, ['idle'])
  t.equal(pools.keep(first, 'late'), false, 'a busy connection of a dropped pool is not kept either')
  t.not(pools.find({ origin: 'http://192.0.2.1:1' }), first)
})
