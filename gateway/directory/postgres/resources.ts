import { listLevels, type ResourceIdType, type ResourceKind } from '../../policy/resource-kind.ts'
import type { ForeignResource, ResourceLevel, ResourceName, ResourceQuestion, ResourceRecord } from '../directory.ts'
import type { Query, Statement } from './pool.ts'

/** The database compares an id of unknown type as its column does, so that an index serves. */
const castOf: Readonly<Record<ResourceIdType, string>> = {
  integer: '::bigint',
  bigint: '::bigint',
  uuid: '::uuid',
  text: '',
}

const spellingOf: Readonly<Record<ResourceIdType, string>> = {
  integer: 'and id > 0',
  bigint: 'and id > 0',
  uuid: '',
  text: "and id::text ~ '^[A-Za-z0-9._~-]{1,128}$'",
}

const describeLevel = ({ hasOwner, hasVisibility }: ResourceKind, index: number): string =>
  `json_build_object('id', r${index}.id::text, 'organizationId', r${index}.organization_id,
    'ownerId', ${hasOwner ? `r${index}.owner_id` : 'null'},
    'visibility', ${hasVisibility ? `r${index}.visibility::text` : "'organization'"})`

const composeLevels = (kind: ResourceKind): string =>
  `json_build_array(${listLevels(kind).map(describeLevel).join(', ')})`

const joinLevels = (kind: ResourceKind): string => {
  const relations = listLevels(kind).map(({ name }, index) => {
    const relation = `sallyport_directory.resources_${name} r${index}`
    return index === 0 ? relation : `join ${relation} on r${index}.id = r${index - 1}.parent`
  })
  return `from ${relations.join(' ')}`
}

/** A foreign resource costs the database and the network about as much as an absent one: its facts stay there. */
const composeReachable = (kind: ResourceKind): string =>
  listLevels(kind)
    .map(({ hasVisibility }, index) => {
      const isOwn = `r${index}.organization_id = $2::integer`
      return hasVisibility ? `(${isOwn} or r${index}.visibility::text = 'public')` : isOwn
    })
    .join(' and ')

export type ResourceStatements = Readonly<{ one: Statement; many: Statement; firstIds: Statement; nextIds: Statement }>

const textsOf = new Map<string, string[]>()
const made = new WeakMap<ResourceKind, ResourceStatements>()

/** A reloaded policy may change a kind, and PostgreSQL takes one text for each name of a prepared statement. */
function nameText(name: string, text: string): Statement {
  const texts = textsOf.get(name) ?? []
  textsOf.set(name, texts)
  if (!texts.includes(text)) texts.push(text)
  const index = texts.indexOf(text)
  return { name: index === 0 ? name : `${name}-${index + 1}`, text }
}

export function statementsOf(kind: ResourceKind): ResourceStatements {
  const known = made.get(kind)
  if (known) return known
  const cast = castOf[kind.idType]
  const levels = composeLevels(kind)
  const from = joinLevels(kind)
  const listIds = (condition: string, limit: string): string =>
    `select id::text as id from sallyport_directory.resources_${kind.name}
      where organization_id = $1 ${spellingOf[kind.idType]} ${condition} order by resources_${kind.name}.id limit ${limit}`
  const statements = {
    one: nameText(
      `find-resource-${kind.name}`,
      `select case when ${composeReachable(kind)} then ${levels} end as levels ${from} where r0.id = $1${cast} limit 2`,
    ),
    many: nameText(
      `find-resources-${kind.name}`,
      `select ${levels} as levels, count(*) over (partition by r0.id) = 1 as "isAlone" ${from}
        where r0.id = any($1${cast && `${cast}[]`})`,
    ),
    firstIds: nameText(`list-first-${kind.name}`, listIds('', '$2')),
    nextIds: nameText(`list-next-${kind.name}`, listIds(`and id > $3${cast}`, '$2')),
  }
  made.set(kind, statements)
  return statements
}

type SeenRow = { levels: ResourceLevel[] | null }

type LevelsRow = { levels: ResourceLevel[]; isAlone?: boolean }

export async function findResource(
  query: Query,
  { kind, id, organizationId }: ResourceQuestion,
): Promise<ResourceRecord | ForeignResource | undefined> {
  const rows = await query<SeenRow>(statementsOf(kind).one, [id, organizationId ?? null])
  const [row, ...others] = rows
  if (!row || others.length > 0) return undefined
  return row.levels === null ? 'foreign' : seenFrom(organizationId, readRecord(id, [{ levels: row.levels }]))
}

export const seenFrom = (organizationId: number | undefined, record: ResourceRecord | undefined) =>
  !record || isReachable(record, organizationId) ? record : 'foreign'

const isReachable = ({ levels }: ResourceRecord, organizationId: number | undefined): boolean =>
  levels.every((level) => level.organizationId === organizationId || level.visibility === 'public')

const visibilities: readonly unknown[] = ['organization', 'public', 'private']

/** Two rows for one id, another spelling of it (citext), a null organization or an unknown visibility name nothing. */
function readRecord(id: string, rows: readonly LevelsRow[]): ResourceRecord | undefined {
  const [row] = rows
  if (!row || rows.length > 1 || row.isAlone === false || row.levels[0]?.id !== id) return undefined
  const isSound = row.levels.every(
    ({ organizationId, ownerId, visibility }) =>
      Number.isSafeInteger(organizationId) &&
      (ownerId === null || Number.isSafeInteger(ownerId)) &&
      visibilities.includes(visibility),
  )
  return isSound ? { levels: row.levels } : undefined
}

const keyOf = ({ kind, id }: ResourceName): string => `${kind.fingerprint} ${id}`

export async function readResources(query: Query, names: readonly ResourceName[]) {
  const idsOf = new Map<string, Readonly<{ kind: ResourceKind; ids: string[] }>>()
  for (const { kind, id } of names) {
    const known = idsOf.get(kind.fingerprint) ?? { kind, ids: [] }
    known.ids.push(id)
    idsOf.set(kind.fingerprint, known)
  }
  const found = new Map<string, ResourceRecord | undefined>()
  await Promise.all(
    [...idsOf.values()].map(async ({ kind, ids }) => {
      const rows = await query<LevelsRow>(statementsOf(kind).many, [ids])
      const rowsOf = new Map<string, LevelsRow[]>()
      for (const row of rows) {
        const id = row.levels[0]?.id ?? ''
        const known = rowsOf.get(id)
        if (known) known.push(row)
        else rowsOf.set(id, [row])
      }
      for (const id of ids) found.set(keyOf({ kind, id }), readRecord(id, rowsOf.get(id) ?? []))
    }),
  )
  return (name: ResourceName): ResourceRecord | undefined => found.get(keyOf(name))
}

export const createTableOf = ({ name, idType, parent }: ResourceKind): string => `
  create table resources_${name} (
    id ${idType} primary key,
    organization_id integer not null references organizations (id) on delete cascade,
    owner_id integer references users (id) on delete set null,
    visibility text not null default 'organization' check (visibility in ('organization', 'public', 'private'))
    ${parent ? `, parent ${parent.idType} not null references resources_${parent.name} (id) on delete cascade` : ''}
  );
  create index on resources_${name} (organization_id, id);
  ${parent ? `create index on resources_${name} (parent);` : ''}
  create view sallyport_directory.resources_${name} with (security_invoker) as
    select id, organization_id, owner_id, visibility ${parent ? ', parent' : ''} from resources_${name};
  grant select on sallyport_directory.resources_${name} to public;
  do $$
  declare
    grantee text;
  begin
    -- A role that reads agents reads resources as well, without another grant.
    for grantee in
      select distinct case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end
      from pg_class c, aclexplode(c.relacl) acl
      where c.oid = 'agents'::regclass and acl.privilege_type = 'SELECT'
    loop
      execute format('grant select on resources_${name} to %s', grantee);
    end loop;
  end
  $$;
  ${(['insert', 'update', 'delete', 'truncate'] as const)
    .map(
      (event) => `create trigger sallyport_${event} after ${event} on resources_${name} ${transitionTables[event]}
    for each statement execute function sallyport_announce_changes('{resource/${name}:organization_id}', '{}');`,
    )
    .join('\n  ')}`

const transitionTables = {
  insert: 'referencing new table as after_rows',
  update: 'referencing old table as before_rows new table as after_rows',
  delete: 'referencing old table as before_rows',
  truncate: '',
} as const
