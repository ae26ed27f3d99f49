import type pg from 'pg'
import type { ColumnType, Relation } from '../relations.ts'
import { type DirectoryProblem, schema, summarize } from './problem.ts'

type Found = Readonly<{
  relation: string
  name: string
  type: string
  category: string
  is_readable: boolean
  is_insertable: boolean
  is_updatable: boolean
  is_deletable: boolean
  is_constant: boolean
}>

// In PostgreSQL's command bits, 8 is INSERT and 16 is DELETE. In its trigger bits, 64 is "instead of", 4 is INSERT and
// 16 is UPDATE. Text types share a category.
const listColumns = `select c.relname as relation, a.attname as name, format_type(a.atttypid, null) as type,
    case t.typcategory when 'E' then 'S' else t.typcategory end as category,
    has_column_privilege(c.oid, a.attnum, 'select') as is_readable,
    has_column_privilege(c.oid, a.attnum, 'insert') and (pg_relation_is_updatable(c.oid, true) & 8) <> 0
      and (pg_column_is_updatable(c.oid, a.attnum, false) or c.instead & 4 <> 0) as is_insertable,
    has_column_privilege(c.oid, a.attnum, 'update')
      and (pg_column_is_updatable(c.oid, a.attnum, false) or c.instead & 16 <> 0) as is_updatable,
    has_table_privilege(c.oid, 'delete') and (pg_relation_is_updatable(c.oid, true) & 16) <> 0 as is_deletable,
    c.relkind = 'v' and not exists (
      select from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
      where r.ev_class = c.oid and d.refclassid = 'pg_class'::regclass and d.refobjid <> c.oid) as is_constant
  from (
    select *, coalesce((select bit_or(tgtype) from pg_trigger where tgrelid = pg_class.oid and tgtype & 64 <> 0), 0)
      as instead
    from pg_class
  ) c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
  where c.relnamespace = to_regnamespace($1) and c.relkind in ('v', 'r', 'p', 'm', 'f')`

const types: Readonly<Record<string, Readonly<{ fits: (found: Found) => boolean; help: string }>>> = {
  integer: {
    fits: ({ type }) => type === 'integer' || type === 'smallint',
    help: 'ids are integers up to 2147483647: cast with ::integer, and index that expression in the table',
  },
  bigint: {
    fits: ({ type }) => /^(?:bigint|integer|smallint)$/.test(type),
    help: 'name the type of its ids in policies/resources.yaml, or cast it',
  },
  uuid: {
    fits: ({ type }) => type === 'uuid',
    help: 'name the type of its ids in policies/resources.yaml, or cast it',
  },
  text: { fits: ({ category }) => category === 'S', help: 'cast it with ::text, or map its values to words by "case"' },
  boolean: { fits: ({ type }) => type === 'boolean', help: "write a comparison, such as visibility = 'public'" },
  timestamptz: {
    fits: ({ type }) => type === 'timestamp with time zone',
    help: "a time without its zone means another moment elsewhere: write column at time zone 'UTC'",
  },
  jsonb: { fits: ({ type }) => type === 'jsonb', help: 'this table is the gateway\'s own: run "sallyport migrate"' },
}

type Asking = Readonly<{ isAdopted: boolean; role: string }>

type Asked = Asking & Readonly<{ all: readonly Found[] }>

export async function checkColumns(
  client: pg.Client,
  relations: readonly Relation[],
  asking: Asking,
): Promise<readonly DirectoryProblem[]> {
  const { rows } = await client.query<Found>(listColumns, [schema])
  return relations.flatMap((relation) => {
    const found = rows.filter((row) => row.relation === relation.name)
    if (found.length === 0) return [missingView(relation)]
    return [
      ...Object.entries(relation.columns).flatMap(([name, type]) =>
        checkColumn(relation, name, type, { ...asking, all: rows }),
      ),
      ...checkWrites(relation, found, asking),
    ]
  })
}

const describeColumns = ({ columns }: Relation): string =>
  Object.entries(columns)
    .map(([name, type]) => `${name} ${type.replace('?', '')}`)
    .join(', ')

const missingView = (relation: Relation): DirectoryProblem => ({
  severity: 'error',
  code: 'missing-view',
  where: `${schema}.${relation.name}`,
  message: 'does not exist',
  help: `create view ${schema}.${relation.name} with the columns ${describeColumns(relation)}`,
})

function checkColumn(
  relation: Relation,
  name: string,
  type: ColumnType,
  { isAdopted, role, all }: Asked,
): readonly DirectoryProblem[] {
  const where = `${schema}.${relation.name}.${name}`
  const column = all.find((row) => row.relation === relation.name && row.name === name)
  const plain = type.replace('?', '')
  if (relation.optional?.includes(name) && !(column && types[plain]?.fits(column))) {
    const message = column ? `is ${column.type}, and reads as false` : 'the view has no such column: it reads as false'
    const help = `add it as ${plain}, or false as ${name} to leave it at that`
    return [{ severity: 'warning', code: column ? 'wrong-type' : 'missing-column', where, message, help }]
  }
  if (!column) {
    const none = type.endsWith('?') ? `, or null::${plain} as ${name} if the backend has no such value` : ''
    const help = `add it to the view as ${plain}${none}`
    return [{ severity: 'error', code: 'missing-column', where, message: 'the view has no such column', help }]
  }
  if (!types[plain]?.fits(column)) {
    const message = `is ${column.type}, and must be ${plain}`
    const isKey = isAdopted && plain === 'integer' && isNumbered(findKeyed(relation.name, name), all)
    const code = isKey ? 'key-to-number' : 'wrong-type'
    return [{ severity: 'error', code, where, message, help: isKey ? numberViews : (types[plain]?.help ?? '') }]
  }
  if (column.is_readable) return []
  const help = `grant select on ${schema}.${relation.name} to ${role};`
  return [{ severity: 'error', code: 'no-access', where, message: 'may not be read', help }]
}

const numberViews = `call ${schema}.number_views(); gives each key one integer (docs/guides/adopt-a-database.md#uuids-and-large-integers)`

const numberedRelations = ['users', 'role_assignments', 'organizations', 'agents', 'clusters']

function findKeyed(relation: string, column: string): string | undefined {
  if (/^(?:user_id|tokenable_id|owner_id)$/.test(column)) return 'users'
  if (/^(?:current_)?organization_id$/.test(column)) return 'organizations'
  return column === 'id' && numberedRelations.includes(relation) ? relation : undefined
}

const isNumbered = (keyed: string | undefined, all: readonly Found[]): boolean =>
  keyed !== undefined &&
  all.some(
    (row) =>
      row.name === 'id' && [keyed, `external_${keyed}`].includes(row.relation) && types.integer?.fits(row) === false,
  )

function checkWrites(
  { name, columns, inserts = [], updates = [], deletes = false }: Relation,
  found: readonly Found[],
  { role }: Asking,
) {
  const refusedBy = (wanted: readonly string[], isAble: (column: Found) => boolean): readonly string[] =>
    wanted.filter((column) => column in columns && found.some((row) => row.name === column && !isAble(row)))
  const complain = (verb: string, refused: readonly string[]): readonly DirectoryProblem[] =>
    refused.length === 0
      ? []
      : [
          {
            severity: 'error',
            code: 'not-writable',
            where: `${schema}.${name}`,
            message: `takes no ${verb} (${summarize(refused)})`,
            help: `grant ${verb}${verb === 'update' ? ` (${refused.join(', ')})` : ''} on ${schema}.${name} to ${role}; a view that computes the column, or joins tables, takes an "instead of ${verb}" trigger`,
          },
        ]
  if (found.every((row) => row.is_constant)) return []
  const notInsertable = refusedBy(inserts, (row) => row.is_insertable)
  const notUpdatable = refusedBy(updates, (row) => row.is_updatable)
  const notDeletable = deletes && found.some((row) => !row.is_deletable) ? ['rows'] : []
  return [
    ...complain('insert', notInsertable),
    ...complain('update', notUpdatable),
    ...complain('delete', notDeletable),
  ]
}
