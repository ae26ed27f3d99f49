import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'another replica on the same database is stopped in its tracks',
  cells: [['peer replica', 'hangs']],
  alerts: ['SallyportReplicaDown'],
  begin: ({ world, owner }) => {
    process.kill(world.pids.gateway, 'SIGSTOP')
    owner.teardown(() => process.kill(world.pids.gateway, 'SIGCONT'))
  },
  end: ({ world }) => process.kill(world.pids.gateway, 'SIGCONT'),
}
