import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { migrate } from '../../../gateway/directory/postgres/migrate.ts'
import type { Owner } from '../owner.ts'
import { type AdoptedDatabase, readExample } from './adopted.ts'
import { backendTables } from './tables.ts'

/** The first key of an organization, which JavaScript's numbers cannot hold. */
export const firstOrganization = '9007199254740993'

/** The backend's tables, with uuids as keys, and organizations with large integers. */
export const keyedTables = backendTables
  .replace(
    'organizations (id serial',
    `organizations (id bigint generated always as identity (start ${firstOrganization})`,
  )
  .replace(
    /(?<=(?:users|user_roles|agents|data_clusters) \(id )serial primary key/g,
    'uuid primary key default gen_random_uuid()',
  )
  .replace(/(?<=(?:user_id|tokenable_id) )integer/g, 'uuid')
  .replace(/(?<=organization_id )integer/g, 'bigint')

const foreignKey = /alter table sallyport_directory\.user_identities[^;]*;/

/** The SQL of the documentation, for keys that no identity can refer to. */
export function readKeyedExample(role: string): string {
  const example = readExample(role)
  if (!foreignKey.test(example)) throw new Error('the example has no foreign key to leave out')
  return example.replace(foreignKey, '')
}

/** Does what the documentation has operators do with a database of such keys. */
export async function adoptKeyedDatabase(owner: Owner, url: string, rows = ''): Promise<AdoptedDatabase> {
  const backend = new pg.Client({ connectionString: url })
  await backend.connect()
  owner.teardown(() => backend.end())
  const role = `gateway_${randomBytes(4).toString('hex')}`
  await backend.query(`create role ${role} login password 'x'; ${keyedTables}; ${rows}`)
  await migrate(url, { adopt: true })
  await backend.query(`begin; ${readKeyedExample(role)}; commit`)
  const gatewayUrl = new URL(url)
  gatewayUrl.username = role
  gatewayUrl.password = 'x'
  return { backend, gatewayUrl: gatewayUrl.href }
}
