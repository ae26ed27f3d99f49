import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'another replica on the same database is killed',
  hasPeer: true,
  cells: [['peer replica', 'refuses']],
  alerts: ['SallyportReplicaDown'],
  begin: ({ world }) => process.kill(world.pids.gateway, 'SIGKILL'),
  end: () => undefined,
}
