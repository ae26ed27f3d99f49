import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import type pg from 'pg'

/** A place where something is stored, and what is there; bytes are read as latin1. */
export type Stored = Readonly<{ place: string; text: string }>

/** The gateway's own tables, line by line as PostgreSQL writes them out. */
export async function dumpTables(database: pg.Client | pg.Pool): Promise<readonly Stored[]> {
  const { rows: tables } = await database.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
      where schemaname not in ('pg_catalog', 'information_schema')`,
  )
  return Promise.all(
    tables.map(async ({ name }) => {
      const { rows } = await database.query<{ row: string }>(`select t::text as row from ${name} t`)
      return { place: name, text: rows.map(({ row }) => row).join('\n') }
    }),
  )
}

/** The folder of a running server's files. */
export function dataDirectoryOf(postmaster: number): string {
  const args = readFileSync(`/proc/${postmaster}/cmdline`, 'utf8').split('\0')
  const directory = args[args.indexOf('-D') + 1]
  if (directory === undefined) throw new Error(`process ${postmaster} names no data directory`)
  return directory
}

/** Every file below a directory, one after the other. */
export function* readFiles(directory: string): Generator<Stored> {
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    try {
      yield { place: entry.name, text: readFileSync(join(entry.parentPath, entry.name), 'latin1') }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error // its owner has just removed it
    }
  }
}

/**
 * Raw tokens in a text, and secrets of these hashes, plain or in base64url. The secrets need not be known: 40
 * characters and their checksum reveal them.
 */
export function findRawTokens(text: string, hashes: ReadonlySet<string>): readonly string[] {
  const tokens = text.match(/oat_[\w-]{2,14}\.[\w-]{54,67}/g) ?? []
  const runs = text.match(/[\w-]{41,}/g) ?? []
  const secrets = runs.flatMap((run) => {
    // A secret may begin at each of the four alignments of base64.
    const decoded = [0, 1, 2, 3].map((start) => Buffer.from(run.slice(start), 'base64url').toString('latin1'))
    return [run, ...decoded].flatMap(findSecrets)
  })
  return [...tokens, ...secrets.filter((secret) => hashes.has(hashSecret(secret)))]
}

/** The stored form of a secret. */
export const hashSecret = (secret: string): string => createHash('sha256').update(secret).digest('hex')

function findSecrets(text: string): readonly string[] {
  const secrets: string[] = []
  for (const { index } of text.matchAll(/(?<=[\w-]{40})\d/g)) {
    const random = text.slice(index - 40, index)
    const checksum = String(crc32(random))
    if (text.startsWith(checksum, index)) secrets.push(random + checksum)
  }
  return secrets
}
