import pg from 'pg'
import { type Drill, withoutDirectory } from '../drill.ts'

/** More connections than the server's `max_connections`. */
const most = 120

export const drill: Drill = {
  about: 'other programs take every connection of PostgreSQL, and those of the gateway are cut',
  cells: [['database', 'full']],
  alerts: ['SallyportDatabaseFailing', 'SallyportDatabasePoolExhausted'],
  begin: async ({ world, wires, notes, owner }) => {
    const clients: pg.Client[] = []
    const end = (): Promise<unknown> => Promise.all(clients.map((client) => client.end().catch(() => undefined)))
    owner.teardown(end)
    notes.set('end', end)
    const fill = async (): Promise<void> => {
      while (clients.length < most) {
        const client = new pg.Client({ connectionString: world.databaseUrl })
        client.on('error', () => undefined)
        try {
          await client.connect()
        } catch {
          return // the server takes no more
        }
        clients.push(client)
      }
    }
    wires.database.freeze()
    await fill()
    wires.database.cut()
    wires.database.thaw()
    await fill()
  },
  end: ({ notes }) => (notes.get('end') as () => Promise<unknown>)(),
  expect: withoutDirectory(3_000),
}
