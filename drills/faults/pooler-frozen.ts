import { lackOf, pgbouncers, startPgBouncer } from '../../test/spec/pgbouncer.ts'
import { leadThrough, startTcpProxy, type TcpProxy } from '../../test/support/tcp-proxy.ts'
import { type Drill, withoutDirectory } from '../drill.ts'

const [pgbouncer] = pgbouncers

export const drill: Drill = {
  about: 'a PgBouncer in transaction mode, through which every query goes, stands still',
  cells: [['database', 'hangs']],
  alerts: ['SallyportDatabaseFailing'],
  findLack: () => lackOf(pgbouncer),
  prepare: async ({ owner, world, notes }) => {
    const pooled = await startPgBouncer(owner, pgbouncer, world.databaseUrl)
    const wire = await startTcpProxy(owner, { port: Number(new URL(pooled).port) })
    notes.set('wire', wire)
    const url = leadThrough(wire, pooled)
    return { settings: { database: { url, pooler: 'transaction', listenUrl: world.databaseUrl } } }
  },
  begin: ({ notes }) => (notes.get('wire') as TcpProxy).freeze(),
  end: ({ notes }) => (notes.get('wire') as TcpProxy).thaw(),
  expect: withoutDirectory(3_000),
}
