import { type NameServer, nameServerLack } from '../../test/support/name-server.ts'
import type { Drill, Finding } from '../drill.ts'
import type { DrillFixture } from '../fixture.ts'
import { leadByNames } from '../lead-by-names.ts'

const serverOf = ({ notes }: DrillFixture): NameServer => notes.get('names') as NameServer

const look = async (
  { metric }: DrillFixture,
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
  begin: (fixture) => serverOf(fixture).silence(true),
  end: (fixture) => serverOf(fixture).silence(false),
  lookDuring: (fixture) => look(fixture, (seconds) => seconds > 0, '> 0 s'),
  lookAfter: (fixture) => look(fixture, (seconds) => seconds === 0, '0 s'),
}
