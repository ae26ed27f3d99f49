import t from 'tap'
import { createNames } from '../../../gateway/engine/names.ts'
import { createConnections } from '../../../gateway/engine/node/connections.ts'

const here = { origin: 'http://127.0.0.1:1' }
const there = { origin: 'http://127.0.0.1:2' }
const names = createNames({ cacheMs: 1_000 })

t.test('no more connections are open than may be, and one that is given back is taken again', async (t) => {
  const connections = createConnections(2, names)
  t.teardown(connections.close)
  const [first, second] = [connections.take(here, 1_000, false), connections.take(here, 1_000, false)]
  if (!first || !second) throw new Error('there is room for two')
  t.equal(connections.take(here, 1_000, false), undefined)
  t.equal(connections.take(there, 1_000, true), undefined)
  connections.keep(first, '127.0.0.1')
  t.equal(connections.take(here, 1_000, false), first)
  connections.drop(second)
  t.ok(connections.take(there, 1_000, false), 'a broken one makes room')
})

t.test('an idle connection gives way to one that is needed elsewhere, or must be fresh', async (t) => {
  const connections = createConnections(1, names)
  t.teardown(connections.close)
  const idle = connections.take(here, 1_000, false)
  if (!idle) throw new Error('there is room for one')
  connections.keep(idle, '127.0.0.1')
  const other = connections.take(there, 1_000, false)
  t.ok(other)
  t.equal(idle.destroyed, true)
  if (other) connections.keep(other, '127.0.0.1')
  const fresh = connections.take(there, 1_000, true)
  t.ok(fresh)
  t.not(fresh, other)
})
