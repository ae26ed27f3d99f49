import { findRedisServerLack } from '../../test/support/redis.ts'
import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'Redis becomes a replica: it answers, and takes no writes',
  cells: [
    ['Redis', 'lies'],
    ['Redis', 'stale'],
  ],
  alerts: ['SallyportRedisDown'],
  findLack: findRedisServerLack,
  // The primary that it follows does not exist.
  begin: ({ redis }) => redis.tell('REPLICAOF 127.0.0.1 1'),
  end: ({ redis }) => redis.tell('REPLICAOF NO ONE'),
  lookDuring: async ({ metric }) => {
    const up = await metric('sallyport_invalidation_source_up')
    return [{ check: 'sources of changes that are up', seen: String(up), limit: '1', isMet: up === 1 }]
  },
}
