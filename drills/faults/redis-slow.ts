import { findRedisServerLack } from '../../test/support/redis.ts'
import { alternate, type Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'Redis stands still for 200 ms of each 300 ms',
  cells: [['Redis', 'slow']],
  findLack: findRedisServerLack,
  begin: ({ redis, notes, owner }) => {
    notes.set(
      'stop',
      alternate(owner, 200, 100, (isStill) => (isStill ? redis.freeze() : redis.thaw())),
    )
  },
  end: ({ notes }) => (notes.get('stop') as () => void)(),
}
