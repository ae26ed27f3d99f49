import { type NameServer, nameServerLack } from '../../support/name-server.ts'
import type { Drill, Finding } from '../drill.ts'
import { leadByNames } from '../lead-by-names.ts'
import type { Stage } from '../stage.ts'

const serverOf = ({ notes }: Stage): NameServer => notes.get('names') as NameServer

const look = async (
  { metric }: Stage,
  isWanted: (seconds: number) => boolean,
  limit: string,
): Promise<readonly Finding[]> => {
  const seconds = await metric('sallyport_dns_stale_seconds')
  return [
    {
      check: 'age of addresses whose name is not resolved',
      seen: `${seconds.toFixed(1)} s`,
      limit,
      isMet: isWanted(seconds),
    },
  ]
}

export const drill: Drill = {
  about: 'the name server does not answer, while every request opens a connection to the upstream by its name',
  cells: [['DNS', 'hangs']],
  alerts: ['SallyportDnsStale'],
  findLack: () => nameServerLack,
  prepare: leadByNames,
  begin: (stage) => serverOf(stage).silence(true),
  end: (stage) => serverOf(stage).silence(false),
  lookDuring: (stage) => look(stage, (seconds) => seconds > 0, '> 0 s'),
  lookAfter: (stage) => look(stage, (seconds) => seconds === 0, '0 s'),
}
