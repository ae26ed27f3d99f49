import { GatewayError } from '../../../base/errors/gateway-error.ts'
import { escapeControls } from '../../../base/lib/text-table.ts'
import { type DeclaredOrganizations, mayBeTakenFor, type StoredOrganization } from '../../../policy/organizations.ts'
import type { AuditContext } from '../../directory.ts'
import type { Database, Query } from '../pool.ts'

export class ProvisionRefusal extends Error {
  override readonly name = 'ProvisionRefusal'

  constructor(message: string) {
    super(escapeControls(message)) // its message quotes names from the database
  }
}

export type Provision = Readonly<{
  query: Query
  /** Another program's tables are read through the views and never written. */
  isAdopted: boolean
  declared: Declared
  note: (deed: ProvisionDeed) => Promise<void>
}>

type Declared = Pick<DeclaredOrganizations, 'byId' | 'bySlug'>

export type ProvisionDeed = Readonly<{
  action: `${'organization' | 'user' | 'agent' | 'cluster'}.created` | `${'organization' | 'agent'}.archived` | UserDeed
  organizationId?: number
  userId?: number
  agentId?: number
  clusterId?: number
  role?: string
}>

type UserDeed = `member.${'added' | 'changed' | 'removed'}` | `user.${'disabled' | 'enabled'}`

export type Provisioning = Readonly<{
  read: <Result>(work: (provision: Provision) => Promise<Result>) => Promise<Result>
  change: <Result>(
    audit: AuditContext,
    work: (provision: Provision) => Promise<Result>,
    isRehearsal?: boolean,
  ) => Promise<Result>
}>

const look = {
  name: 'look-at-owner',
  text: `select to_regclass('sallyport_directory.sallyport_migrations') is not null as is_adopted`,
}

/** One writer at a time: two that look for the same external id would both find nothing and create it twice. */
const lock = {
  name: 'lock-provisioning',
  text: "select set_config('lock_timeout', $1, true), pg_advisory_xact_lock(7255978002)",
}

const lockTimedOut = '55P03'

const noteDeed = {
  name: 'note-deed',
  text: `insert into sallyport_directory.audit_events
    (action, actor_id, credential, organization_id, subject_id, agent_id, cluster_id, role, client_address, request_id)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
}

export function createProvisioning(
  { query, transaction }: Database,
  declared: Declared,
  lockTimeoutMs = 5_000,
): Provisioning {
  const isAdopted = async (): Promise<boolean> => {
    const [row] = await query<{ is_adopted: boolean }>(look, [])
    return row?.is_adopted === true
  }
  return {
    read: async (work) => work({ query, isAdopted: await isAdopted(), declared, note: async () => undefined }),
    change: async (audit, work, isRehearsal = false) => {
      if (await isAdopted()) throw new ProvisionRefusal(adopted)
      let rehearsed: readonly [Awaited<ReturnType<typeof work>>] | undefined
      try {
        return await transaction(async (within) => {
          await within(lock, [`${lockTimeoutMs}ms`])
          const noteWithin = (deed: ProvisionDeed) => note(within, deed, audit)
          const result = await work({ query: within, isAdopted: false, declared, note: noteWithin })
          if (!isRehearsal) return result
          rehearsed = [result]
          throw new ProvisionRefusal('rehearsed')
        })
      } catch (error) {
        if (rehearsed) return rehearsed[0]
        // The pool takes any rejection in a transaction for a failure of the database.
        const cause = error instanceof GatewayError ? error.cause : undefined
        if (cause instanceof Error && (cause as NodeJS.ErrnoException).code === lockTimedOut)
          throw new ProvisionRefusal('another command changes the directory now; run this one when that has ended')
        throw cause instanceof ProvisionRefusal ? cause : error
      }
    },
  }
}

/** The members that the database says for such an organization count as absent, so the command would be of no effect. */
export function refuseDeclared({ declared }: Provision, organization: StoredOrganization): void {
  if (!mayBeTakenFor(organization, declared)) return
  throw new ProvisionRefusal(
    `organization "${organization.slug}" (id ${organization.id}) may be taken for one that the policy declares; ` +
      'nothing was changed: give another slug, or change policies/organizations.yaml',
  )
}

const adopted =
  "another program's tables are adopted in this database, and only that program creates and changes what is in them; " +
  'make the change there'

async function note(query: Query, deed: ProvisionDeed, audit: AuditContext): Promise<void> {
  const { action, organizationId = null, userId = null, agentId = null, clusterId = null, role = null } = deed
  const { actorId, credential, clientAddress, requestId } = audit
  const rows = [organizationId, userId, agentId, clusterId, role]
  await query(noteDeed, [action, actorId, credential, ...rows, clientAddress, requestId])
}

export type Created<Row> = Readonly<{ row: Row; isNew: boolean }>

export type ReferencedKind = 'organization' | 'user' | 'agent' | 'cluster'

export type Creation<Row> = Readonly<{
  kind: ReferencedKind
  externalId: string | undefined
  find: (id: number) => Promise<Row | undefined>
  differences: (row: Row) => readonly string[]
  insert: () => Promise<number>
}>

export async function createOnce<Row>({ query }: Provision, creation: Creation<Row>): Promise<Created<Row>> {
  const { kind, externalId, find, differences, insert } = creation
  if (externalId !== undefined) {
    const findId = `select ${kind}_id as id from sallyport_directory.external_references where kind = $1 and external_id = $2`
    const [known] = await query<{ id: number }>({ name: `find-${kind}-reference`, text: findId }, [kind, externalId])
    const row = known && (await find(known.id))
    if (row) {
      const fields = differences(row)
      if (fields.length === 0) return { row, isNew: false }
      throw new ProvisionRefusal(
        `external id "${externalId}" is ${kind} ${known.id}, which has another ${fields.join(', ')}; ` +
          'nothing was changed: give what it has, or another external id',
      )
    }
  }
  const id = await insert()
  if (externalId !== undefined) {
    const noteId = `insert into sallyport_directory.external_references (kind, external_id, ${kind}_id) values ($1, $2, $3)`
    await query({ name: `note-${kind}-reference`, text: noteId }, [kind, externalId, id])
  }
  const row = await find(id)
  if (!row) throw new GatewayError('internal')
  return { row, isNew: true }
}

export const sourceOf = ({ isAdopted }: Provision, relation: 'users' | 'organizations' | 'agents'): string =>
  `sallyport_directory.${isAdopted ? '' : 'managed_'}${relation}`

export const externalIdOf = ({ isAdopted }: Provision, kind: ReferencedKind, id: string): string =>
  isAdopted
    ? 'null::text'
    : `(select x.external_id from sallyport_directory.external_references x where x.${kind}_id = ${id})`

/** A list stays within a query's time limit. The next page follows the last id that was shown. */
export const listedRows = 1_000
