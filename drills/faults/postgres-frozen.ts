import { freezePostgres } from '../../test/support/freeze-postgres.ts'
import { type Drill, withoutDirectory } from '../drill.ts'

export const drill: Drill = {
  about: 'every process of PostgreSQL is stopped: connections stay, and nothing answers',
  cells: [['database', 'hangs']],
  alerts: ['SallyportDatabaseFailing'],
  isShort: true,
  begin: ({ postgres, notes, owner }) => {
    const thaw = freezePostgres(Number(postgres.pid()))
    owner.teardown(thaw)
    notes.set('thaw', thaw)
  },
  end: ({ notes }) => (notes.get('thaw') as () => void)(),
  expect: withoutDirectory(3_000),
}
