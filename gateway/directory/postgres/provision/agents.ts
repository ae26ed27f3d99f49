import { type OrganizationReference, requireActiveOrganization, requireOrganization } from './organizations.ts'
import {
  type Created,
  createOnce,
  externalIdOf,
  listedRows,
  type Provision,
  ProvisionRefusal,
  sourceOf,
} from './provisioning.ts'

/** An agent as operators see it, archived ones included. Another program's view has no names. */
export type ManagedAgent = Readonly<{
  id: number
  organizationId: number
  name: string | null
  isPublic: boolean
  externalId: string | null
  archivedAt: Date | null
}>

export type NewAgent = Readonly<{
  organization: OrganizationReference
  name: string
  isPublic: boolean
  externalId: string | undefined
}>

async function select(provision: Provision, name: string, condition: string, values: readonly unknown[]) {
  const text = `select a.id, a.organization_id as "organizationId", to_jsonb(a) ->> 'name' as name,
      a.is_public as "isPublic", ${externalIdOf(provision, 'agent', 'a.id')} as "externalId",
      (to_jsonb(a) ->> 'archived_at')::timestamptz as "archivedAt"
    from ${sourceOf(provision, 'agents')} a where ${condition}`
  return provision.query<ManagedAgent>({ name, text }, values)
}

const findAgent = async (provision: Provision, id: number): Promise<ManagedAgent | undefined> =>
  (await select(provision, 'find-managed-agent', 'a.id = $1', [id]))[0]

export async function listAgents(
  provision: Provision,
  afterId: number,
  organization: OrganizationReference | undefined,
): Promise<readonly ManagedAgent[]> {
  const organizationId = organization ? (await requireOrganization(provision, organization)).id : null
  const condition = `a.id > $1 and ($2::int is null or a.organization_id = $2) order by a.id limit ${listedRows}`
  return select(provision, 'list-agents', condition, [afterId, organizationId])
}

const insertAgent = {
  name: 'insert-agent',
  text: `insert into sallyport_directory.managed_agents (organization_id, name, is_public) values ($1, $2, $3)
    returning id`,
}

export async function createAgent(
  provision: Provision,
  { organization, name, isPublic, externalId }: NewAgent,
): Promise<Created<ManagedAgent>> {
  const { id: organizationId } = await requireActiveOrganization(provision, organization)
  return createOnce<ManagedAgent>(provision, {
    kind: 'agent',
    externalId,
    find: (id) => findAgent(provision, id),
    differences: (row) => [
      ...(row.organizationId === organizationId ? [] : ['organization']),
      ...(row.name === name ? [] : ['name']),
      ...(row.isPublic === isPublic ? [] : ['visibility']),
      ...(row.archivedAt === null ? [] : ['state: it is archived']),
    ],
    insert: async () => {
      const [created] = await provision.query<{ id: number }>(insertAgent, [organizationId, name, isPublic])
      if (!created) throw new ProvisionRefusal('the database declined the agent; a trigger of its table may say why')
      await provision.note({ action: 'agent.created', organizationId, agentId: created.id })
      return created.id
    },
  })
}

const archiveAgentRow = {
  name: 'archive-agent',
  text: `update sallyport_directory.managed_agents set archived_at = now() where id = $1 and archived_at is null
    returning id`,
}

export async function archiveAgent(provision: Provision, id: number): Promise<ManagedAgent> {
  const changed = await provision.query(archiveAgentRow, [id])
  const agent = await findAgent(provision, id)
  if (!agent) throw new ProvisionRefusal(`agent ${id} does not exist; "sallyport agents list" shows those that do`)
  if (changed.length > 0)
    await provision.note({ action: 'agent.archived', organizationId: agent.organizationId, agentId: id })
  return agent
}
