// Databases of programs from before 0.1.0. Their migrations, numbered below 100, built what the baseline builds now.
import { createHash } from 'node:crypto'
import type pg from 'pg'

/** A database of the gateway's own, or one of another program. */
export type Kind = 'own' | 'adopted'

/** The number of the baseline's first migration. Lower ones belong to unreleased programs. */
const firstOfBaseline = 100
const lastOfBaseline = 102

export const isUnreleased = (version: number): boolean => version > 0 && version < firstOfBaseline

export const unreleasedCause =
  'an unreleased program made the schema: run "sallyport migrate --from-unreleased" once, which keeps all data'

/** The last commit with these migrations, their newest number, and the digest of their numbers and checksums. */
const lastCommit = '4c320ffc'
const complete: Readonly<Record<Kind, Readonly<{ newest: number; digest: string }>>> = {
  own: { newest: 21, digest: '32fb2daf027a614fb4b0abeb842c4a1f2740e63948f9ac8d5a8dceb4f1b29675' },
  adopted: { newest: 15, digest: '07fca96632bb4b520d4659a5d70f4cbc8ffb4dd38e0f192eee13d5c53ae4c4ae' },
}

const ledgerOf: Readonly<Record<Kind, string>> = {
  own: 'sallyport_migrations',
  adopted: 'sallyport_directory.sallyport_migrations',
}

/** A migration in the ledger. The checksum is that of its file. */
type Entry = Readonly<{ version: number; name: string; md5?: string | null }>

/**
 * Puts the baseline in the place of the migrations that built the same schema, and says whether there were any. It changes
 * the ledger alone, and belongs into the transaction of the migration.
 */
export async function moveLedger(
  client: pg.Client,
  kind: Kind,
  isAsked: boolean,
  listMigrations: () => Promise<readonly Entry[]>,
): Promise<boolean> {
  const unreleased = await readUnreleased(client, kind)
  if (unreleased.length === 0) return false
  if (!isAsked) throw new Error(unreleasedCause)
  requireComplete(kind, unreleased)
  const ledger = ledgerOf[kind]
  // As the baseline does.
  await client.query(`alter table ${ledger} add column if not exists minimum_version bigint not null default 0`)
  await client.query(`grant select on ${ledger} to public`)
  await client.query(`delete from ${ledger} where version > 0 and version < $1`, [firstOfBaseline])
  for (const { version, name, md5 } of await listMigrations())
    if (version <= lastOfBaseline)
      await client.query(`insert into ${ledger} (version, name, md5, run_at) values ($1, $2, $3, now())`, [
        version,
        name,
        md5,
      ])
  return true
}

async function readUnreleased(client: pg.Client, kind: Kind): Promise<readonly Entry[]> {
  const ledger = ledgerOf[kind]
  const { rows: looks } = await client.query<{ is_there: boolean }>('select to_regclass($1) is not null as is_there', [
    ledger,
  ])
  if (!looks[0]?.is_there) return []
  const { rows } = await client.query<Entry>(
    `select version::int as version, name, md5 from ${ledger} where version > 0 and version < $1 order by version`,
    [firstOfBaseline],
  )
  return rows
}

function requireComplete(kind: Kind, rows: readonly Entry[]): void {
  const { newest, digest } = complete[kind]
  const last = rows.at(-1)?.version ?? 0
  if (last < newest)
    throw new Error(
      `the database has migration ${last} of ${newest} unreleased ones: run "sallyport migrate" of commit ${lastCommit} first, then "sallyport migrate --from-unreleased" again`,
    )
  const text = rows.map(({ version, md5 }) => `${version} ${md5}`).join(',')
  if (createHash('sha256').update(text).digest('hex') !== digest)
    throw new Error(
      `the migrations of the database are not those of commit ${lastCommit}, so its schema may be another: compare sallyport_migrations with that commit`,
    )
}
