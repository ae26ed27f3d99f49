import { type NameServer, nameServerLack } from '../../test/support/name-server.ts'
import { type Drill, withoutUpstream } from '../drill.ts'
import { drillDomain, leadByNames } from '../lead-by-names.ts'

export const drill: Drill = {
  about: "the name server gives an address for the upstream's name at which nothing listens",
  cells: [
    ['DNS', 'lies'],
    ['DNS', 'stale'],
  ],
  alerts: ['SallyportUpstreamFailing'],
  findLack: () => nameServerLack,
  prepare: leadByNames,
  begin: ({ notes }) => (notes.get('names') as NameServer).set(`upstream.${drillDomain}`, '127.9.9.9'),
  end: ({ notes }) => (notes.get('names') as NameServer).set(`upstream.${drillDomain}`, '127.0.0.1'),
  expect: withoutUpstream(1_000),
}
