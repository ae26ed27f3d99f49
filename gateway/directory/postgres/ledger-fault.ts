// The ledger of migrations says whether a program may serve from a database.
import { newestVersion } from './migrate.ts'
import type { Query, Statement } from './pool.ts'
import { isUnreleased, unreleasedCause } from './unreleased.ts'

export type SchemaFault = Readonly<{
  state: 'failing' | 'limited'
  cause: string
  /** Whether a program must not start with this database, as a later migration of the same database can't mend it. */
  endsStart?: boolean
}>

export const failing = (cause: string): SchemaFault => ({ state: 'failing', cause })

const refusing = (cause: string): SchemaFault => ({ ...failing(cause), endsStart: true })

type Look = {
  is_there: boolean
  is_open: boolean | null
  is_adopted: boolean
  ledger: string | null
  is_readable: boolean
}

/**
 * The search path may lack the schema of the gateway's own tables, since views lead to them. Then the ledger is found
 * beside the table behind a view.
 */
const look: Statement = {
  name: 'look-at-schema',
  text: `select to_regnamespace('sallyport_directory') is not null as is_there,
      has_schema_privilege(to_regnamespace('sallyport_directory'), 'usage') as is_open,
      adopted is not null as is_adopted, ledger::regclass::text as ledger,
      has_table_privilege(ledger, 'select') and has_schema_privilege(relnamespace, 'usage') as is_readable
    from (select to_regclass('sallyport_directory.sallyport_migrations')::oid as adopted,
      to_regclass('sallyport_migrations')::oid as own, (
        select l.oid from pg_rewrite r
        join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
        join pg_class t on t.oid = d.refobjid and t.relkind = 'r'
        join pg_class l on l.relnamespace = t.relnamespace and l.relname = 'sallyport_migrations'
        where r.ev_class = to_regclass('sallyport_directory.issuer_keys') limit 1
      ) as beside) as tables
    left join pg_class on pg_class.oid = coalesce(adopted, own, beside)
    cross join lateral (select pg_class.oid as ledger) as found`,
}

type Versions = { version: number | null; minimum: number }

/** A database without a ledger was not made by migrations, and asks for nothing. */
export async function findLedgerFault(query: Query): Promise<SchemaFault | undefined> {
  const [found] = await query<Look>(look, [])
  if (!found?.is_there) return failing('the database is not migrated: run "sallyport migrate"')
  if (!found.is_open)
    return failing('schema sallyport_directory may not be used: grant usage to the role of database.url')
  if (found.ledger === null) return undefined
  // Without it the program can't know whether it may serve.
  if (!found.is_readable)
    return refusing(
      `${found.ledger} may not be read: grant select on it, and usage on its schema, to the role of database.url`,
    )
  // Ledgers of unreleased programs have no such column.
  const text = `select max(version)::int as version, coalesce(max((to_jsonb(m) ->> 'minimum_version')::int), 0) as minimum
    from ${found.ledger} m`
  const [row] = await query<Versions>({ name: 'find-schema-version', text }, [])
  const { version, minimum } = { version: row?.version ?? 0, minimum: row?.minimum ?? 0 }
  const known = newestVersion(found.is_adopted ? 'adopted' : 'own')
  if (minimum > known)
    return refusing(
      `the database asks for a program that knows migration ${minimum}, and this one knows ${known}: start a newer version of sallyport`,
    )
  if (isUnreleased(version)) return refusing(unreleasedCause)
  if (version < known) return failing(`the schema has version ${version}, and needs ${known}: run "sallyport migrate"`)
  return undefined
}

/** For a start and for commands: throws if this program must not use the database at all. */
export async function requireUsable(query: Query): Promise<void> {
  const fault = await findLedgerFault(query)
  if (fault?.endsStart) throw new Error(fault.cause)
}
