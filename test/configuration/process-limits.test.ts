import { totalmem } from 'node:os'
import t from 'tap'
import {
  findShortages,
  limitConnections,
  limitHeldBytes,
  readDescriptorLimit,
  readMemoryLimit,
  shareMemory,
} from '../../gateway/configuration/process-limits.ts'

const place = { host: '127.0.0.1', port: 0 }
const database = { poolSize: 10 } as NonNullable<Parameters<typeof limitConnections>[0]['database']>

const configure = (wanted: Partial<Record<'public' | 'decision' | 'admin', number>> = {}) => ({
  database,
  listeners: {
    public: { ...place, ...(wanted.public !== undefined && { maxConnections: wanted.public }) },
    decision: { ...place, ...(wanted.decision !== undefined && { maxConnections: wanted.decision }) },
    admin: { ...place, ...(wanted.admin !== undefined && { maxConnections: wanted.admin }) },
  },
})

t.test('with descriptors enough every listener has what it wants', async (t) => {
  const limits = limitConnections(configure(), 1_000_000)
  t.match(limits, { public: 10_000, decision: 10_000, admin: 100 })
  t.ok(limits.upstreams >= 900_000)
  t.match(limitConnections(configure()), { public: 10_000, decision: 10_000, admin: 100 })
  t.match(limitConnections(configure({ public: 7, decision: 8, admin: 9 }), 1_000_000), {
    public: 7,
    decision: 8,
    admin: 9,
  })
})

t.test('all connections together, and each one’s upstream, leave some descriptors of any number', async (t) => {
  for (const descriptors of [256, 512, 1_024, 4_096, 20_000, 65_536])
    for (const wanted of [{}, { public: 100_000 }, { decision: 100_000, admin: 50_000 }, { public: 10 }]) {
      const { public: open, decision, admin, upstreams } = limitConnections(configure(wanted), descriptors)
      const rest = descriptors - open - decision - admin - upstreams
      t.ok(rest >= 64 + database.poolSize, `${rest} of ${descriptors}`)
      t.ok(upstreams >= open, 'an upstream’s for each client')
      t.ok(Math.min(open, decision, admin) >= 4)
    }
})

t.test(
  'a configured limit that does not fit is a shortage, and a default only if it is too small to be useful',
  async (t) => {
    const shortages = (wanted: Parameters<typeof configure>[0], descriptors: number) => {
      const configuration = configure(wanted)
      return findShortages(configuration, limitConnections(configuration, descriptors)).map(({ listener }) => listener)
    }
    t.same(shortages({}, 1_000_000), [])
    t.same(shortages({}, 20_000), [])
    t.same(shortages({ public: 10_000 }, 20_000), ['public'])
    t.same(shortages({ public: 5_000 }, 20_000), [])
    t.same(shortages({}, 512), ['public', 'decision', 'admin'])
  },
)

t.test('the limit of this very process is read', { skip: process.platform !== 'linux' }, async (t) => {
  t.ok((readDescriptorLimit() ?? 0) > 100)
})

const mebibyte = 1024 * 1024

t.test('bytes held for slow peers are an eighth of the container’s memory, shared by the workers', async (t) => {
  const constrainedMemory = process.constrainedMemory
  t.teardown(() => {
    process.constrainedMemory = constrainedMemory
  })
  const limits = {} as Parameters<typeof limitHeldBytes>[0]['limits']
  const heldOf = (workers: number): number => limitHeldBytes({ limits }, shareMemory({ workers }, readMemoryLimit()))
  process.constrainedMemory = () => 512 * mebibyte
  t.equal(heldOf(1), 64 * mebibyte, 'of the chart’s 512 MiB')
  t.equal(heldOf(4), 16 * mebibyte)
  t.equal(heldOf(100), 8 * mebibyte, 'never less than that')
  // Node says 0, or more than the machine has, where nothing constrains it.
  for (const unlimited of [0, 2 ** 63]) {
    process.constrainedMemory = () => unlimited
    t.equal(readMemoryLimit(), totalmem())
  }
  t.equal(limitHeldBytes({ limits: { ...limits, heldBytes: 65_536 } }, 512 * mebibyte), 65_536, 'as configured')
})
