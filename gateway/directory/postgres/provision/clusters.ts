import { type OrganizationReference, requireActiveOrganization } from './organizations.ts'
import { type Created, createOnce, externalIdOf, type Provision, ProvisionRefusal } from './provisioning.ts'

export type ManagedCluster = Readonly<{
  id: number
  organizationId: number
  slug: string
  name: string
  baseUrl: string
  status: string
  externalId: string | null
}>

export type NewCluster = Readonly<{
  organization: OrganizationReference
  slug: string
  name: string
  baseUrl: string
  externalId: string | undefined
}>

async function select(provision: Provision, name: string, condition: string, values: readonly unknown[]) {
  const text = `select c.id, c.organization_id as "organizationId", c.slug, c.name, c.base_url as "baseUrl", c.status,
      ${externalIdOf(provision, 'cluster', 'c.id')} as "externalId"
    from sallyport_directory.managed_clusters c where ${condition}`
  return provision.query<ManagedCluster>({ name, text }, values)
}

const insertCluster = {
  name: 'insert-cluster',
  text: `insert into sallyport_directory.managed_clusters (organization_id, slug, name, base_url)
    values ($1, $2, $3, $4) on conflict (organization_id, slug) do nothing returning id`,
}

export async function createCluster(
  provision: Provision,
  { organization, slug, name, baseUrl, externalId }: NewCluster,
): Promise<Created<ManagedCluster>> {
  const { id: organizationId } = await requireActiveOrganization(provision, organization)
  return createOnce<ManagedCluster>(provision, {
    kind: 'cluster',
    externalId,
    find: async (id) => (await select(provision, 'find-managed-cluster', 'c.id = $1', [id]))[0],
    differences: (row) => [
      ...(row.organizationId === organizationId ? [] : ['organization']),
      ...(row.slug === slug ? [] : ['slug']),
      ...(row.name === name ? [] : ['name']),
      ...(row.baseUrl === baseUrl ? [] : ['address']),
    ],
    insert: async () => {
      const values = [organizationId, slug, name, baseUrl]
      const [created] = await provision.query<{ id: number }>(insertCluster, values)
      if (!created) {
        const condition = 'c.organization_id = $1 and c.slug = $2'
        const [taken] = await select(provision, 'find-cluster-by-slug', condition, [organizationId, slug])
        throw new ProvisionRefusal(
          `the slug "${slug}" is taken by cluster ${taken?.id ?? '?'} of organization ${organizationId}; give another slug`,
        )
      }
      await provision.note({ action: 'cluster.created', organizationId, clusterId: created.id })
      return created.id
    },
  })
}
