import { populate } from '../../test/support/population.ts'
import type { Drill } from '../drill.ts'
import { findRevoked, keepAccount } from '../revoked.ts'

export const drill: Drill = {
  about: 'another replica on the same database is frozen, and goes on later',
  hasPeer: true,
  cells: [
    ['peer replica', 'hangs'],
    ['peer replica', 'stale'],
  ],
  alerts: ['SallyportReplicaDown'],
  prepare: async (fixture) => {
    keepAccount(fixture, await populate(fixture.owner, fixture.world))
    return {}
  },
  begin: ({ world, owner }) => {
    process.kill(world.pids.gateway, 'SIGSTOP')
    owner.teardown(() => process.kill(world.pids.gateway, 'SIGCONT'))
  },
  end: ({ world }) => process.kill(world.pids.gateway, 'SIGCONT'),
  // The stopped replica heard of no change.
  lookAfter: (fixture) => findRevoked(fixture, fixture.world.public, 2_000),
}
