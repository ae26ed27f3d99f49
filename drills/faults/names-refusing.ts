import { type NameServer, nameServerLack } from '../../test/support/name-server.ts'
import type { Drill } from '../drill.ts'
import { drillDomain, leadByNames } from '../lead-by-names.ts'

export const drill: Drill = {
  about: "the name server no longer knows the upstream's name, while every request opens a connection to the upstream",
  cells: [['DNS', 'refuses']],
  alerts: ['SallyportDnsStale'],
  findLack: () => nameServerLack,
  prepare: leadByNames,
  begin: ({ notes }) => (notes.get('names') as NameServer).set(`upstream.${drillDomain}`, undefined),
  end: ({ notes }) => (notes.get('names') as NameServer).set(`upstream.${drillDomain}`, '127.0.0.1'),
}
