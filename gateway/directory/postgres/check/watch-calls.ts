import type pg from 'pg'

type Origin = Readonly<{ relation: string; column: string; table: string; source: string; has_id: boolean }>

export type ComposeWatchCall = (table: string, relations: ReadonlySet<string>) => string

// A view's rule is a text of nested nodes. Its own target list comes behind those of its subqueries, so that of several
// entries of one name the last is the view's column.
const findOrigins = `select regexp_replace(c.relname, '^external_', '') as relation, origin.name as column,
    t.oid::regclass::text as table, s.attname as source,
    exists (select from pg_attribute where attrelid = t.oid and attname = 'id' and attnum > 0) as has_id
  from pg_class c
  join pg_rewrite r on r.ev_class = c.oid
  cross join lateral (
    select distinct on (m[1]) m[1] as name, m[2]::oid as oid, m[3]::int as number
    from regexp_matches(r.ev_action::text,
      ':resname (\\S+) :ressortgroupref \\d+ :resorigtbl (\\d+) :resorigcol (\\d+) :resjunk false', 'g')
      with ordinality as found (m, at)
    order by m[1], at desc
  ) origin
  join pg_class t on t.oid = origin.oid and t.relkind in ('r', 'p') and t.relnamespace <> c.relnamespace
  join pg_attribute s on s.attrelid = t.oid and s.attnum = origin.number
  where c.relnamespace = to_regnamespace('sallyport_directory') and c.relkind = 'v'`

const subjectsOf = (relation: string): readonly (readonly [column: string, kind: string])[] => {
  if (relation.startsWith('resources_')) return [['organization_id', `resource/${relation.slice('resources_'.length)}`]]
  return subjects[relation] ?? []
}

const subjects: Readonly<Record<string, readonly (readonly [column: string, kind: string])[]>> = {
  users: [['id', 'user']],
  role_assignments: [
    ['user_id', 'user'],
    ['organization_id', 'members'],
    ['id', 'role_assignment'],
  ],
  organizations: [['id', 'organization']],
  auth_access_tokens: [['id', 'token']],
  agents: [['id', 'agent']],
  clusters: [['id', 'cluster']],
}

export async function readWatchCalls(client: pg.Client): Promise<ComposeWatchCall> {
  const { rows: origins } = await client.query<Origin>(findOrigins)
  return (table, relations) => {
    const listed = new Set<string>()
    for (const relation of relations) {
      const named = subjectsOf(relation).map(([column, kind]) => {
        const origin = origins.find((one) => one.relation === relation && one.column === column && one.table === table)
        return origin?.has_id && /^[a-z_][a-z0-9_]*$/.test(origin.source) ? `${kind}:${origin.source}` : undefined
      })
      if (named[0] === undefined) return `call sallyport_directory.watch(${quote(table)});`
      for (const subject of named) if (subject !== undefined) listed.add(subject)
    }
    return `call sallyport_directory.watch(${quote(table)}, '{${[...listed].join(',')}}');`
  }
}

const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`
