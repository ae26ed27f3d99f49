import { findRedisServerLack } from '../../test/support/redis.ts'
import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'Redis is stopped: connections stay, and nothing answers',
  cells: [['Redis', 'hangs']],
  alerts: ['SallyportRedisDown'],
  findLack: findRedisServerLack,
  begin: ({ redis }) => redis.freeze(),
  end: ({ redis }) => redis.thaw(),
}
