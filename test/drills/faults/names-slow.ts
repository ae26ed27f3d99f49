import { type NameServer, nameServerLack } from '../../support/name-server.ts'
import type { Drill } from '../drill.ts'
import { leadByNames } from '../lead-by-names.ts'
import type { Stage } from '../stage.ts'

const serverOf = ({ notes }: Stage): NameServer => notes.get('names') as NameServer

/** Less than a second, after which the system's resolver would ask again. */
const delayMs = 800

export const drill: Drill = {
  about: 'the name server answers after 0.8 s, while every request opens a connection to the upstream by its name',
  cells: [['DNS', 'slow']],
  findLack: () => nameServerLack,
  prepare: leadByNames,
  begin: (stage) => {
    stage.notes.set('asked', serverOf(stage).asked().length)
    serverOf(stage).delay(delayMs)
  },
  end: (stage) => serverOf(stage).delay(0),
  lookDuring: async (stage) => {
    const asked = serverOf(stage).asked().length - Number(stage.notes.get('asked'))
    return [{ check: 'questions that were answered late', seen: `${asked}`, limit: '> 0', isMet: asked > 0 }]
  },
}
