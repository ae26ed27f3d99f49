import { type NameServer, nameServerLack } from '../../test/support/name-server.ts'
import type { Drill } from '../drill.ts'
import type { DrillFixture } from '../fixture.ts'
import { leadByNames } from '../lead-by-names.ts'

const serverOf = ({ notes }: DrillFixture): NameServer => notes.get('names') as NameServer

/** Less than a second, after which the system's resolver would ask again. */
const delayMs = 800

export const drill: Drill = {
  about: 'the name server answers after 0.8 s, while every request opens a connection to the upstream by its name',
  cells: [['DNS', 'slow']],
  findLack: () => nameServerLack,
  prepare: leadByNames,
  begin: (fixture) => {
    fixture.notes.set('asked', serverOf(fixture).asked().length)
    serverOf(fixture).delay(delayMs)
  },
  end: (fixture) => serverOf(fixture).delay(0),
  lookDuring: async (fixture) => {
    const asked = serverOf(fixture).asked().length - Number(fixture.notes.get('asked'))
    return [{ check: 'questions that were answered late', seen: `${asked}`, limit: '> 0', isMet: asked > 0 }]
  },
}
