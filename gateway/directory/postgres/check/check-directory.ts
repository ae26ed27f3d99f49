import pg from 'pg'
import { type DeclaredOrganizations, mayBeTakenFor, type StoredOrganization } from '../../../policy/organizations.ts'
import { createHideUser } from '../hide-user.ts'
import { relationsWith, removedIdentities } from '../relations.ts'
import { findTablesWithoutTriggers } from '../tables-without-triggers.ts'
import { checkColumns } from './columns.ts'
import { checkPlans } from './plans.ts'
import { type DirectoryProblem, schema } from './problem.ts'
import { checkRows } from './rows.ts'
import type { Vocabulary } from './values.ts'
import { readWatchCalls } from './watch-calls.ts'
import { findFrequentChanges, tryTriggers } from './watched-tables.ts'
import { tryWrites } from './writes.ts'

export type DirectoryReport = Readonly<{ isAdopted: boolean; relations: number; problems: readonly DirectoryProblem[] }>

export type CheckOptions = Readonly<{
  url: string
  vocabulary: Vocabulary
  declared?: DeclaredOrganizations | undefined
  triesWrites: boolean
  timeoutMs: number
}>

export async function checkDirectory(options: CheckOptions): Promise<DirectoryReport> {
  const client = new pg.Client({
    connectionString: options.url,
    connectionTimeoutMillis: options.timeoutMs,
    query_timeout: options.timeoutMs,
    application_name: 'sallyport directory check',
  })
  client.on('error', () => undefined) // the statement under way rejects by itself
  try {
    await client.connect()
    await client.query('begin')
    // Inside the transaction, because a pooler accepts the setting only there.
    await client.query(`set local statement_timeout = ${options.timeoutMs}`)
    const report = await checkAll(client, options)
    await client.query('rollback')
    return report
  } catch (error) {
    throw createHideUser(options.url)(error)
  } finally {
    await client.end()
  }
}

async function checkAll(
  client: pg.Client,
  { vocabulary, declared, triesWrites }: CheckOptions,
): Promise<DirectoryReport> {
  const { isAdopted, role, barrier } = await look(client)
  if (barrier) return { isAdopted, relations: 0, problems: [barrier] }
  const relations = [...relationsWith(vocabulary.resources), ...(declared ? [removedIdentities] : [])]
  const columns = await checkColumns(client, relations, { isAdopted, role })
  const errors = columns.filter(({ severity }) => severity === 'error')
  const broken = new Set(
    errors.filter(({ code }) => code !== 'not-writable').map(({ where }) => where.split('.')[1] ?? ''),
  )
  const usable = new Set(relations.map(({ name }) => name).filter((name) => !broken.has(name)))
  const rows = await checkRows(
    client,
    relations.filter(({ name }) => usable.has(name)),
    vocabulary,
  )
  const shared = declared && usable.has('organizations') ? await checkShared(client, declared) : []
  const triggers = await checkTriggers(client, isAdopted)
  const writes =
    triesWrites && errors.length === 0 ? [...(await tryWrites(client)), ...(await tryTriggers(client))] : []
  const frequent = isAdopted ? await findFrequentChanges(client) : []
  const plans = await checkPlans(client, usable, vocabulary.resources)
  const silent = triggers.filter(({ where }) => !(where.startsWith(schema) && broken.has(where.split('.')[1] ?? '')))
  const numbered = columns.filter(({ code }) => code === 'key-to-number')
  const others = columns.filter((problem) => !numbered.includes(problem))
  // Views are numbered after their tables are watched.
  const problems = [...others, ...rows, ...shared, ...silent, ...numbered, ...writes, ...frequent, ...plans]
  return { isAdopted, relations: relations.length, problems }
}

async function look(
  client: pg.Client,
): Promise<Readonly<{ isAdopted: boolean; role: string; barrier?: DirectoryProblem }>> {
  const { rows } = await client.query<{ is_there: boolean; is_open: boolean | null; role: string }>(
    `select to_regnamespace($1) is not null as is_there, has_schema_privilege(to_regnamespace($1), 'usage') as is_open,
      quote_ident(current_user) as role`,
    [schema],
  )
  const role = rows[0]?.role ?? ''
  const barrier = { severity: 'error', where: schema } as const
  if (!rows[0]?.is_there) {
    const help = 'run "sallyport migrate", or "sallyport migrate --adopt" where the tables are another program\'s'
    return { isAdopted: false, role, barrier: { ...barrier, code: 'not-migrated', message: 'does not exist', help } }
  }
  if (!rows[0].is_open) {
    const help = `grant usage on schema ${schema} to ${role};`
    return { isAdopted: false, role, barrier: { ...barrier, code: 'no-access', message: 'may not be used', help } }
  }
  const { rows: marks } = await client.query<{ is_adopted: boolean }>(
    `select to_regclass('${schema}.sallyport_migrations') is not null as is_adopted`,
  )
  return { isAdopted: marks[0]?.is_adopted === true, role }
}

async function checkShared(client: pg.Client, declared: DeclaredOrganizations): Promise<readonly DirectoryProblem[]> {
  const shared = await findTaken(client, declared)
  return shared.slice(0, mostNamed).map(({ id, slug }) => ({
    severity: 'error',
    code: 'declared-too',
    where: `${schema}.organizations`,
    message: `has organization ${id} (${slug.slice(0, 64)}), whose id, key or slug may be taken for a declared one: it counts as absent`,
    help: 'give the declared organization another id and slug, or leave the row out of the view',
  }))
}

/** As many as an operator mends before the next run. A cursor reads views of any size in bounded memory. */
const mostNamed = 20
const rowsAtOnce = 500

async function findTaken(client: pg.Client, declared: DeclaredOrganizations): Promise<readonly StoredOrganization[]> {
  await client.query(`declare stored_organizations no scroll cursor for
    select id, slug, to_jsonb(o) ->> 'external_id' as "externalId" from ${schema}.organizations o order by id`)
  const taken: StoredOrganization[] = []
  let isAll = false
  while (!isAll && taken.length < mostNamed) {
    const { rows } = await client.query<StoredOrganization>(`fetch ${rowsAtOnce} from stored_organizations`)
    taken.push(...rows.filter((row) => mayBeTakenFor(row, declared)))
    isAll = rows.length < rowsAtOnce
  }
  await client.query('close stored_organizations')
  return taken
}

async function checkTriggers(client: pg.Client, isAdopted: boolean): Promise<readonly DirectoryProblem[]> {
  const composeCall = await readWatchCalls(client)
  const eventsOf = new Map<string, Readonly<{ relations: Set<string>; events: Set<string> }>>()
  for (const { table, relation, event } of await findTablesWithoutTriggers(client)) {
    const known = eventsOf.get(table) ?? { relations: new Set(), events: new Set() }
    eventsOf.set(table, { relations: known.relations.add(relation), events: known.events.add(event) })
  }
  return [...eventsOf].map(([table, { relations, events }]) => ({
    severity: 'error',
    code: 'silent-table',
    where: table,
    message: `no trigger tells of ${[...events].join(', ')}, and ${[...relations].join(', ')} read from it: caches would keep old rows of it`,
    help: isAdopted
      ? `${composeCall(table, relations)} It needs a table, not a materialized view (docs/guides/adopt-a-database.md)`
      : `alter table ${table} enable trigger all; or restore the triggers of migration 3`,
  }))
}
