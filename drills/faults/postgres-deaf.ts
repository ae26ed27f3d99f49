import { populate } from '../../test/support/population.ts'
import { leadThrough, startTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts'
import type { Drill } from '../drill.ts'
import { findRevoked, keepAccount } from '../revoked.ts'

export const drill: Drill = {
  about: 'no change arrives from PostgreSQL any more, over a connection that stays open',
  cells: [['database', 'stale']],
  alerts: ['SallyportInvalidationSourceDown'],
  prepare: async (fixture) => {
    const { owner, world, wires, notes } = fixture
    const wire = await startTcpProxy(owner, { port: Number(new URL(world.databaseUrl).port) })
    notes.set('wire', wire)
    const url = leadThrough(wires.database, world.databaseUrl)
    // Without Redis, which would carry the same changes.
    const settings = { database: { url, listenUrl: leadThrough(wire, world.databaseUrl) }, redis: undefined }
    keepAccount(fixture, await populate(owner, world))
    return { settings }
  },
  begin: ({ notes }) => (notes.get('wire') as TcpProxy).freeze(),
  end: ({ notes }) => (notes.get('wire') as TcpProxy).thaw(),
  lookDuring: (fixture) => findRevoked(fixture, fixture.gateway().public, 2_000),
}
