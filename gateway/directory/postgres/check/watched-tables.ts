import type pg from 'pg'
import { guarded } from '../../../base/fault/guarded.ts'
import { attempt } from './attempt.ts'
import type { DirectoryProblem } from './problem.ts'

// The arguments of a trigger are those of the call of "watch" (migration 13 of adopted databases).
const watchedTables = `
  select t.tgrelid as oid, array_agg(substr(t.tgname, 11)) filter (where t.tgname <> 'sallyport_truncate') as events,
    split_part(args, '\\000', 1)::text[] as subjects, split_part(args, '\\000', 2)::text[] as ignored
  from pg_trigger t join pg_proc p on p.oid = t.tgfoid cross join lateral encode(t.tgargs, 'escape') as args
  where starts_with(t.tgname, 'sallyport_') and (
    p.oid = to_regproc('sallyport_announce_changes')
    or p.pronamespace = to_regnamespace('sallyport_directory') and starts_with(p.proname, 'changes_of_'))
  group by t.tgrelid, args`

const listUpdatable = `select distinct w.oid::regclass::text as table, (
    select quote_ident(a.attname) from pg_attribute a
    where a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and a.attidentity <> 'a'
      and has_column_privilege(w.oid, a.attnum, 'update')
    order by a.attnum limit 1) as column
  from (${watchedTables}) w
  where 'update' = any (w.events) and has_table_privilege(w.oid, 'select')
  order by 1`

/**
 * Updates one record of each watched table to what it is, and takes it back at once. It shows what a trigger says of the
 * table's present columns. A table that the role may not update is left out: the gateway's own role may update few.
 */
export async function tryTriggers(client: pg.Client): Promise<readonly DirectoryProblem[]> {
  const problems: DirectoryProblem[] = []
  const { rows: tables } = await client.query<{ table: string; column: string | null }>(listUpdatable)
  for (const { table, column } of tables) {
    if (column === null) continue
    const warned: string[] = []
    const hear = guarded('directory', ({ message = '' }: { message?: string | undefined }) => void warned.push(message))
    client.on('notice', hear)
    await client.query('savepoint tried')
    const update = `update ${table} set ${column} = ${column} where ctid = (select ctid from ${table} limit 1)`
    const outcome = await attempt(client, update)
    await client.query('rollback to savepoint tried')
    client.off('notice', hear)
    const [said] = warned.filter((message) => message.startsWith('sallyport: '))
    if ('refusal' in outcome || said !== undefined)
      problems.push({
        severity: 'warning',
        code: 'failing-trigger',
        where: table,
        message:
          'refusal' in outcome
            ? `an update of a record to what it is is refused: ${outcome.refusal}`
            : `each update tells of everything: ${said?.slice('sallyport: '.length)}`,
        help: `call sallyport_directory.watch for this table again, with its present columns`,
      })
  }
  return problems
}

/** Since the statistics were reset; a table below has no changes to speak of. */
const oftenUpdates = 1_000
const oftenTimes = 10

// A column of the primary key changes for no reason but another record.
const listFrequent = `select w.oid::regclass::text as table, string_agg(a.attname, ', ' order by a.attnum) as columns,
    format('call sallyport_directory.watch(%L, %L, %L, %L);', w.oid::regclass,
      (select array_agg(split_part(s, ':', 1) || ':' || split_part(s, ':', 2)) from unnest(w.subjects) as s),
      w.ignored || array_agg(a.attname::text order by a.attnum), w.events) as help
  from (${watchedTables}) w
  join pg_class c on c.oid = w.oid and c.relnamespace <> 'sallyport_directory'::regnamespace
  join pg_stat_all_tables s on s.relid = w.oid and s.n_tup_upd >= $1 and s.n_tup_upd >= $2 * s.n_live_tup
  join pg_attribute a on a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped and a.attname <> all (w.ignored)
  where 'update' = any (w.events) and cardinality(w.subjects) > 0
    and not exists (select from pg_index i where i.indrelid = w.oid and i.indisprimary and a.attnum = any (i.indkey))
    and not exists (select from unnest(w.subjects) as s where split_part(s, ':', 2) = a.attname)
    and not exists (
      select from pg_depend d
      where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = w.oid
        and d.refobjsubid = a.attnum)
  group by w.oid, w.subjects, w.ignored, w.events
  order by 1`

/** Columns that count without a reader, of tables that are updated often: each change of one empties caches. */
export async function findFrequentChanges(client: pg.Client): Promise<readonly DirectoryProblem[]> {
  const { rows } = await client.query<{ table: string; columns: string; help: string }>(listFrequent, [
    oftenUpdates,
    oftenTimes,
  ])
  return rows.map(({ table, columns, help }) => ({
    severity: 'warning',
    code: 'frequent-changes',
    where: table,
    message: `is updated often, and tells of each change of ${columns}, which no view reads`,
    help,
  }))
}
