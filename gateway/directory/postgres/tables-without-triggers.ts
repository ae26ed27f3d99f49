import type pg from 'pg'
import { relations } from './relations.ts'

export type SilentTable = Readonly<{ relation: string; table: string; event: string }>

const eventBits = { insert: 4, delete: 8, update: 16, truncate: 32 } as const

// A view's rule leads to other relations, down to those that hold rows. A view of constants leads nowhere. A missing
// relation stands for itself.
const findSilent = `with recursive
  wanted (relation, event, bit) as (select * from unnest($1::text[], $2::text[], $3::int[])),
  sources (relation, oid) as (
    select distinct relation, to_regclass('sallyport_directory.' || relation)::oid from wanted
    union
    select s.relation, d.refobjid
    from sources s
    join pg_rewrite r on r.ev_class = s.oid
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
      and d.refclassid = 'pg_class'::regclass and d.refobjid <> s.oid
    join pg_class below on below.oid = d.refobjid and below.relkind <> 'S'
    -- A materialized view holds rows of its own.
    where (select relkind from pg_class where oid = s.oid) = 'v'
  )
  select w.relation, coalesce(s.oid::regclass::text, 'sallyport_directory.' || w.relation) as table, w.event
  from wanted w join sources s on s.relation = w.relation left join pg_class c on c.oid = s.oid
  where c.relkind is distinct from 'v'
    -- No cache knows a number that has just been given.
    and (w.event <> 'insert' or s.oid is distinct from to_regclass('sallyport_directory.external_ids')) and (
    select bool_and(t.tgenabled in ('O', 'A')) from pg_trigger t
    where t.tgrelid = s.oid and t.tgtype & w.bit <> 0 and (
      t.tgfoid = to_regproc('sallyport_announce_changes') or exists (
        select from pg_proc where oid = t.tgfoid and pronamespace = to_regnamespace('sallyport_directory')
          and starts_with(proname, 'changes_of_')))
  ) is not true
  order by 1, 2, 3`

const findResources = `select relname as name from pg_class
  where relnamespace = to_regnamespace('sallyport_directory') and starts_with(relname, 'resources_') and relkind <> 'i'`

export async function findTablesWithoutTriggers(client: pg.Client): Promise<readonly SilentTable[]> {
  const { rows: resources } = await client.query<{ name: string }>(findResources)
  const wanted = relations.flatMap(({ name, tells }) =>
    tells ? [...tells, 'truncate' as const].map((event) => ({ name, event, bit: eventBits[event] })) : [],
  )
  for (const event of ['insert', 'update', 'delete', 'truncate'] as const)
    for (const { name } of resources) wanted.push({ name, event, bit: eventBits[event] })
  const { rows } = await client.query<SilentTable>(findSilent, [
    wanted.map(({ name }) => name),
    wanted.map(({ event }) => event),
    wanted.map(({ bit }) => bit),
  ])
  return rows
}
