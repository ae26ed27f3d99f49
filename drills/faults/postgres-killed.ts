import { until } from '../../test/support/gateway.ts'
import { type Drill, withoutDirectory } from '../drill.ts'

export const drill: Drill = {
  about: 'PostgreSQL is killed, and another one starts on its data three seconds later',
  cells: [],
  alerts: ['SallyportDatabaseFailing'],
  begin: async ({ postgres }) => {
    const pid = Number(postgres.pid())
    process.kill(pid, 'SIGKILL')
    await until(() => postgres.pid() !== pid, 'the end of PostgreSQL')
  },
  end: ({ postgres }) => until(() => postgres.pid() !== undefined, 'the next PostgreSQL', 20_000),
  expect: withoutDirectory(3_000),
}
