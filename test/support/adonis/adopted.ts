import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { migrate } from '../../../gateway/directory/postgres/migrate.ts'
import type { Owner } from '../owner.ts'

const example = new URL('../../../docs/guides/adopt-a-database/adonis.sql', import.meta.url)

/** A database of a backend, and a role that may do in it what the example grants to a gateway. */
export type AdoptedDatabase = Readonly<{
  /** A connection with the role of the backend itself. */
  backend: pg.Client
  /** The database for the gateway, with a role of its own. */
  gatewayUrl: string
}>

/** The SQL that the documentation gives to operators, for a role. */
export const readExample = (role: string): string => readFileSync(example, 'utf8').replaceAll(':"gateway"', `"${role}"`)

/** Does what the documentation has operators do with their database. */
export async function adoptDatabase(owner: Owner, url: string): Promise<AdoptedDatabase> {
  const backend = new pg.Client({ connectionString: url })
  await backend.connect()
  owner.teardown(() => backend.end())
  const role = `gateway_${randomBytes(4).toString('hex')}`
  const password = randomBytes(16).toString('hex')
  await backend.query(`create role ${role} login password '${password}'`)
  await migrate(url, { adopt: true })
  await backend.query(`begin; ${readExample(role)}; commit`)
  const gatewayUrl = new URL(url)
  gatewayUrl.username = role
  gatewayUrl.password = password
  return { backend, gatewayUrl: gatewayUrl.href }
}
