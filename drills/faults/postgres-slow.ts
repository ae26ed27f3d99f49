import { freezePostgres } from '../../test/support/freeze-postgres.ts'
import { alternate, type Drill, withoutDirectory } from '../drill.ts'

export const drill: Drill = {
  about: 'PostgreSQL stands still for 200 ms of each 300 ms',
  cells: [['database', 'slow']],
  alerts: ['SallyportStageSlow'],
  isMild: true,
  begin: ({ postgres, notes, owner }) => {
    let thaw = (): void => undefined
    const stop = alternate(owner, 200, 100, (isStill) => {
      if (isStill) thaw = freezePostgres(Number(postgres.pid()))
      else thaw()
    })
    notes.set('stop', stop)
  },
  end: ({ notes }) => (notes.get('stop') as () => void)(),
  expect: withoutDirectory(3_000),
}
