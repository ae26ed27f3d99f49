import type pg from 'pg'
import { findSilentTables } from '../silent-tables.ts'
import type { DirectoryProblem } from './problem.ts'

/** Names each table behind the views whose changes no replica would hear of. */
export async function checkTriggers(client: pg.Client, isAdopted: boolean): Promise<readonly DirectoryProblem[]> {
  const eventsOf = new Map<string, Readonly<{ relations: Set<string>; events: Set<string> }>>()
  for (const { table, relation, event } of await findSilentTables(client)) {
    const known = eventsOf.get(table) ?? { relations: new Set(), events: new Set() }
    eventsOf.set(table, { relations: known.relations.add(relation), events: known.events.add(event) })
  }
  return [...eventsOf].map(([table, { relations, events }]) => ({
    severity: 'error',
    code: 'silent-table',
    where: table,
    message: `no trigger tells of ${[...events].join(', ')}, and ${[...relations].join(', ')} read from it: what is held of it would be old`,
    help: isAdopted
      ? `call sallyport_directory.watch('${table}'), with the subjects that docs/operate/adopt.md names; it needs a table, not a materialized view`
      : `alter table ${table} enable trigger all, or restore the triggers of migration 3`,
  }))
}
