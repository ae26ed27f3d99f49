import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import Postgrator from 'postgrator'
import { createHideUser } from './hide-user.ts'

/** Of a database of our own, and of one that another program has filled. */
const scripts = {
  own: fileURLToPath(new URL('./migrations/', import.meta.url)),
  adopted: fileURLToPath(new URL('./adopted/', import.meta.url)),
}

/** The version that this program's statements are written for. */
export function newestVersion(kind: keyof typeof scripts): number {
  const versions = readdirSync(scripts[kind]).map((name) => Number(/^(\d+)\.do\..*\.sql$/.exec(name)?.[1] ?? 0))
  return Math.max(...versions)
}

/** Any number that nobody else's advisory lock is likely to be. */
const lockKey = 7_255_978_001

export type AppliedMigration = Readonly<{ version: number; name: string }>

export type MigrateOptions = Readonly<{
  /** Takes a database with another program's tables, and leaves those alone; once taken it stays so. */
  adopt?: boolean
}>

/**
 * Brings the schema up to date, in one transaction and behind an advisory lock: of several replicas that start
 * together one migrates, the others wait and find nothing to do.
 */
export async function migrate(
  url: string,
  { adopt = false }: MigrateOptions = {},
): Promise<readonly AppliedMigration[]> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    application_name: 'sallyport migrate',
  })
  try {
    await client.connect()
    await client.query('begin')
    await client.query('select pg_advisory_xact_lock($1)', [lockKey])
    const kind = await chooseKind(client, adopt)
    const postgrator = new Postgrator({
      migrationPattern: `${literalGlob(scripts[kind])}*.sql`,
      driver: 'pg',
      schemaTable: 'sallyport_migrations',
      ...(kind === 'adopted' && { currentSchema: 'sallyport_directory' }),
      execQuery: (query) => client.query(query),
    })
    const applied = await postgrator.migrate()
    await client.query('commit')
    return applied.map(({ version, name }) => ({ version, name }))
  } catch (error) {
    throw createHideUser(url)(error)
  } finally {
    await client.end()
  }
}

type Found = Readonly<{ is_own: boolean; is_adopted: boolean; has_schema: boolean; strangers: string | null }>

/** What is in a database before its first migration, by the names that ours would take. */
const look = `select to_regclass('sallyport_migrations') is not null as is_own,
  to_regclass('sallyport_directory.sallyport_migrations') is not null as is_adopted,
  to_regnamespace('sallyport_directory') is not null as has_schema,
  (select string_agg(name, ', ') from unnest(array['users', 'user_identities', 'organizations', 'role_assignments',
    'auth_access_tokens', 'agents', 'clusters']) as name where to_regclass(name) is not null) as strangers`

async function chooseKind(client: pg.Client, adopt: boolean): Promise<keyof typeof scripts> {
  const { rows } = await client.query<Found>(look)
  const { is_own, is_adopted, has_schema, strangers } = rows[0] ?? {}
  if (is_adopted) return 'adopted'
  if (is_own && adopt) throw new Error('this database is the gateway\'s own; run "sallyport migrate" without --adopt')
  if (is_own) return 'own'
  if (!adopt && strangers)
    throw new Error(
      `another program's tables are in this database (${strangers}): to have them read as they are, run "sallyport migrate --adopt"; for tables of its own give the gateway an empty database`,
    )
  // "if not exists" would ask for the right to create schemas even where there is nothing to create.
  if (adopt && !has_schema) await client.query('create schema sallyport_directory')
  return adopt ? 'adopted' : 'own'
}

/** The package may lie in a folder whose name means something in a glob pattern. */
const literalGlob = (path: string): string => path.replace(/[*?[\]{}()!+@]/g, '\\$&')
