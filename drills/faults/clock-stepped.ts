import { findLibrary, type SteppedClock, startClock } from '../../test/spec/stepped-clock.ts'
import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'the clock of the gateway is stepped two hours forward, and back',
  cells: [['clock', 'lies']],
  findLack: () => (findLibrary() === undefined ? 'there is no libfaketime (Debian: faketime)' : undefined),
  prepare: ({ owner, notes }) => {
    const clock = startClock(owner, findLibrary() ?? '')
    notes.set('clock', clock)
    return { environment: clock.environment }
  },
  begin: ({ notes }) => (notes.get('clock') as SteppedClock).stepBy(7_200),
  end: ({ notes }) => (notes.get('clock') as SteppedClock).stepBy(0),
}
