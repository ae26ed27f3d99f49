import { type Drill, withoutDirectory } from '../drill.ts'

export const drill: Drill = {
  about: 'PostgreSQL resets every connection, old ones and new ones',
  cells: [['database', 'refuses']],
  alerts: ['SallyportDatabaseFailing'],
  begin: ({ wires: { database } }) => {
    database.refuse()
    database.cut()
  },
  end: ({ wires: { database } }) => database.accept(),
  expect: withoutDirectory(3_000),
}
