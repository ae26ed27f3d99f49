import { fileURLToPath } from 'node:url'
import pg from 'pg'
import Postgrator from 'postgrator'

const migrations = fileURLToPath(new URL('./migrations/', import.meta.url))

/** Any number that nobody else's advisory lock is likely to be. */
const lockKey = 7_255_978_001

export type AppliedMigration = Readonly<{ version: number; name: string }>

/**
 * Brings the schema up to date, in one transaction and behind an advisory lock: of several replicas that start
 * together one migrates, the others wait and find nothing to do.
 */
export async function migrate(url: string): Promise<readonly AppliedMigration[]> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    application_name: 'sallyport migrate',
  })
  await client.connect()
  try {
    await client.query('begin')
    await client.query('select pg_advisory_xact_lock($1)', [lockKey])
    const postgrator = new Postgrator({
      migrationPattern: `${literalGlob(migrations)}*.sql`,
      driver: 'pg',
      schemaTable: 'sallyport_migrations',
      execQuery: (query) => client.query(query),
    })
    const applied = await postgrator.migrate()
    await client.query('commit')
    return applied.map(({ version, name }) => ({ version, name }))
  } finally {
    await client.end()
  }
}

/** The package may lie in a folder whose name means something in a glob pattern. */
const literalGlob = (path: string): string => path.replace(/[*?[\]{}()!+@]/g, '\\$&')
