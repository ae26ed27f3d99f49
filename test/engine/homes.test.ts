import t from 'tap'
import { Homes, mostHomes } from '../../gateway/engine/homes.ts'
import { createNames } from '../../gateway/engine/names.ts'

t.test('addresses of the past do not add up, and their idle connections close', async (t) => {
  const dropped: string[] = []
  const names = createNames({ cacheMs: 1_000 })
  const homes = new Homes<string>({
    names,
    clusterNames: names,
    peerOf: () => undefined,
    drop: (name) => dropped.push(name),
  })
  const first = homes.find({ origin: 'http://192.0.2.1:1' })
  homes.keep(first, 'idle')
  for (let port = 2; port <= mostHomes + 1; port++) homes.find({ origin: `http://192.0.2.1:${port}` })
  t.equal(homes.size, mostHomes)
  t.same(dropped, ['idle'])
  t.equal(homes.keep(first, 'late'), false, 'nor is one kept that was busy')
  t.not(homes.find({ origin: 'http://192.0.2.1:1' }), first)
})
