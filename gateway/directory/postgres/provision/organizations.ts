import type { AccountType } from '../../directory.ts'
import {
  type Created,
  createOnce,
  externalIdOf,
  listedRows,
  type Provision,
  ProvisionRefusal,
  refuseDeclared,
  sourceOf,
} from './provisioning.ts'

export type ManagedOrganization = Readonly<{
  id: number
  slug: string
  name: string
  accountType: AccountType
  externalId: string | null
  memberCount: number
  archivedAt: Date | null
}>

export type NewOrganization = Readonly<{
  slug: string
  name: string
  accountType: AccountType
  externalId: string | undefined
}>

export type OrganizationReference = Readonly<{ id: number } | { slug: string }>

async function select(provision: Provision, name: string, condition: string, values: readonly unknown[]) {
  const text = `select o.id, o.slug, o.name, o.account_type as "accountType",
      ${externalIdOf(provision, 'organization', 'o.id')} as "externalId",
      (select count(*)::int from sallyport_directory.role_assignments r where r.organization_id = o.id) as "memberCount",
      (to_jsonb(o) ->> 'archived_at')::timestamptz as "archivedAt"
    from ${sourceOf(provision, 'organizations')} o where ${condition}`
  return provision.query<ManagedOrganization>({ name, text }, values)
}

export const listOrganizations = (provision: Provision, afterId: number): Promise<readonly ManagedOrganization[]> =>
  select(provision, 'list-organizations', `o.id > $1 order by o.id limit ${listedRows}`, [afterId])

export async function requireOrganization(
  provision: Provision,
  reference: OrganizationReference,
): Promise<ManagedOrganization> {
  const [found] =
    'id' in reference
      ? await select(provision, 'find-organization-by-id', 'o.id = $1', [reference.id])
      : await select(provision, 'find-organization-by-slug', 'o.slug = $1', [reference.slug])
  if (found) return found
  const named = 'id' in reference ? String(reference.id) : `"${reference.slug}"`
  throw new ProvisionRefusal(`organization ${named} does not exist; "sallyport organizations list" shows all`)
}

export async function requireActiveOrganization(
  provision: Provision,
  reference: OrganizationReference,
): Promise<ManagedOrganization> {
  const found = await requireOrganization(provision, reference)
  if (found.archivedAt) throw new ProvisionRefusal(`organization ${found.id} (${found.slug}) is archived; name another`)
  return found
}

const insertOrganization = {
  name: 'insert-organization',
  text: `insert into sallyport_directory.managed_organizations (name, slug, account_type) values ($1, $2, $3)
    on conflict (slug) do nothing returning id`,
}

export async function createOrganization(
  provision: Provision,
  { slug, name, accountType, externalId }: NewOrganization,
): Promise<Created<ManagedOrganization>> {
  return createOnce<ManagedOrganization>(provision, {
    kind: 'organization',
    externalId,
    find: async (id) => (await select(provision, 'find-organization-by-id', 'o.id = $1', [id]))[0],
    differences: (row) => [
      ...(row.slug === slug ? [] : ['slug']),
      ...(row.name === name ? [] : ['name']),
      ...(row.accountType === accountType ? [] : ['type']),
      ...(row.archivedAt === null ? [] : ['state: it is archived']),
    ],
    insert: async () => {
      const [created] = await provision.query<{ id: number }>(insertOrganization, [name, slug, accountType])
      if (!created) {
        const taken = await requireOrganization(provision, { slug })
        const known = taken.externalId === null ? 'no external id' : `the external id "${taken.externalId}"`
        throw new ProvisionRefusal(
          `the slug "${slug}" is taken by organization ${taken.id}, which has ${known}; give another slug`,
        )
      }
      // After the insert, which gives the id; the refusal takes it back.
      refuseDeclared(provision, { id: created.id, slug })
      await provision.note({ action: 'organization.created', organizationId: created.id })
      return created.id
    },
  })
}

const archiveOrganizationRow = {
  name: 'archive-organization',
  text: `update sallyport_directory.managed_organizations set archived_at = now(), updated_at = now()
    where id = $1 and archived_at is null returning id`,
}

const archiveAgentsOf = {
  name: 'archive-agents',
  text: `update sallyport_directory.managed_agents set archived_at = now()
    where organization_id = $1 and archived_at is null returning id`,
}

/** Archives its agents too, because a public agent requires no membership. No command undoes that. */
export async function archiveOrganization(
  provision: Provision,
  reference: OrganizationReference,
): Promise<ManagedOrganization> {
  const { id } = await requireOrganization(provision, reference)
  const changed = await provision.query(archiveOrganizationRow, [id])
  if (changed.length > 0) {
    await provision.note({ action: 'organization.archived', organizationId: id })
    const agents = await provision.query<{ id: number }>(archiveAgentsOf, [id])
    for (const agent of agents)
      await provision.note({ action: 'agent.archived', organizationId: id, agentId: agent.id })
  }
  return requireOrganization(provision, { id })
}
