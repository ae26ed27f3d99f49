import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import type { ResourceKind } from '../../policy/resource-kind.ts'
import { createHideUser } from './hide-user.ts'
import { createTableOf } from './resources.ts'
import { type Kind, moveLedger } from './unreleased.ts'

const scripts = fileURLToPath(new URL('./migrations/', import.meta.url))

export function newestVersion(kind: Kind): number {
  const names = ['shared', kind].flatMap((folder) => readdirSync(`${scripts}${folder}`))
  return Math.max(...names.map((name) => Number(/^(\d+)\.do\..*\.sql$/.exec(name)?.[1] ?? 0)))
}

/** Any number that no other program's advisory lock is likely to use. */
const lockKey = 7_255_978_001

export type AppliedMigration = Readonly<{ version: number; name: string }>

export type Migrated = Readonly<{
  /** Whether a database of an unreleased program was taken over. */
  isMoved: boolean
  applied: readonly AppliedMigration[]
  created: readonly string[]
  missing: readonly string[]
}>

export type MigrateOptions = Readonly<{
  /** Keeps another program's tables as they are. An adopted database stays adopted. */
  adopt?: boolean
  /** Takes over a database of an unreleased program. */
  fromUnreleased?: boolean
  resources?: readonly ResourceKind[]
}>

/** Runs in one transaction behind an advisory lock, so that of several replicas one migrates and the others wait. */
export async function migrate(
  url: string,
  { adopt = false, fromUnreleased = false, resources = [] }: MigrateOptions = {},
): Promise<Migrated> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    application_name: 'sallyport migrate',
  })
  try {
    await client.connect().catch((cause: unknown) => {
      throw new GatewayError('directory_unavailable', { cause })
    })
    await client.query('begin')
    await client.query('select pg_advisory_xact_lock($1)', [lockKey])
    const kind = await chooseKind(client, adopt)
    const { default: Postgrator } = await import('postgrator')
    const postgrator = new Postgrator({
      migrationPattern: `${literalGlob(scripts)}{shared,${kind}}/*.sql`,
      driver: 'pg',
      schemaTable: 'sallyport_migrations',
      ...(kind === 'adopted' && { currentSchema: 'sallyport_directory' }),
      execQuery: (query) => client.query(query),
    })
    const isMoved = await moveLedger(client, kind, fromUnreleased, () => postgrator.getMigrations())
    const applied = (await postgrator.migrate()).map(({ version, name }) => ({ version, name }))
    const unseen = await findUnseen(client, resources)
    if (kind === 'own') for (const resource of unseen) await client.query(createTableOf(resource))
    await client.query('commit')
    const names = unseen.map(({ name }) => name)
    return kind === 'own'
      ? { isMoved, applied, created: names, missing: [] }
      : { isMoved, applied, created: [], missing: names }
  } catch (error) {
    throw createHideUser(url)(error)
  } finally {
    await client.end()
  }
}

async function findUnseen(client: pg.Client, kinds: readonly ResourceKind[]): Promise<readonly ResourceKind[]> {
  const { rows } = await client.query<{ name: string }>(
    `select name from unnest($1::text[]) as name where to_regclass('sallyport_directory.resources_' || name) is null`,
    [kinds.map(({ name }) => name)],
  )
  const unseen = new Set(rows.map(({ name }) => name))
  return kinds.filter(({ name }) => unseen.has(name))
}

type Found = Readonly<{ is_own: boolean; is_adopted: boolean; has_schema: boolean; strangers: string | null }>

const look = `select to_regclass('sallyport_migrations') is not null as is_own,
  to_regclass('sallyport_directory.sallyport_migrations') is not null as is_adopted,
  to_regnamespace('sallyport_directory') is not null as has_schema,
  (select string_agg(name, ', ') from unnest(array['users', 'user_identities', 'organizations', 'role_assignments',
    'auth_access_tokens', 'agents', 'clusters']) as name where to_regclass(name) is not null) as strangers`

async function chooseKind(client: pg.Client, adopt: boolean): Promise<Kind> {
  const { rows } = await client.query<Found>(look)
  const { is_own, is_adopted, has_schema, strangers } = rows[0] ?? {}
  if (is_adopted) return 'adopted'
  if (is_own && adopt) throw new Error('this database is the gateway\'s own; run "sallyport migrate" without --adopt')
  if (is_own) return 'own'
  if (!adopt && strangers)
    throw new Error(
      `the database has tables of another program (${strangers}). Run "sallyport migrate --adopt" to read them as they are, or give the gateway an empty database.`,
    )
  // "if not exists" would require the right to create schemas even if the schema exists.
  if (!has_schema) await client.query('create schema sallyport_directory')
  return adopt ? 'adopted' : 'own'
}

/** The package may be in a folder whose name has a meaning in a glob pattern. */
const literalGlob = (path: string): string => path.replace(/[*?[\]{}()!+@]/g, '\\$&')
