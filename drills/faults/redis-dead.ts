import { findRedisServerLack } from '../../test/support/redis.ts'
import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'Redis is killed, and started again empty',
  cells: [['Redis', 'refuses']],
  alerts: ['SallyportRedisDown'],
  findLack: findRedisServerLack,
  begin: ({ redis }) => redis.kill(),
  end: ({ redis }) => redis.restart(),
}
