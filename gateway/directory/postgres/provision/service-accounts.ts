import { addMember, findMembership } from './members.ts'
import { type OrganizationReference, requireActiveOrganization } from './organizations.ts'
import { createPerson, type ManagedUser } from './people.ts'
import { type Created, type Provision, ProvisionRefusal } from './provisioning.ts'

export type NewServiceAccount = Readonly<{
  organization: OrganizationReference
  role: string
  email: string
  username: string
  externalId: string | undefined
}>

/** The first membership is in an Enterprise organization: others may have no tokens. */
export async function createServiceAccount(
  provision: Provision,
  { organization, role, email, username, externalId }: NewServiceAccount,
): Promise<Created<ManagedUser>> {
  const { id, accountType, slug } = await requireActiveOrganization(provision, organization)
  if (accountType !== 'enterprise')
    throw new ProvisionRefusal(
      `organization ${id} (${slug}) is of type ${accountType}, and only enterprise ones have service accounts; name another`,
    )
  const unnamed = { isEmailVerified: false, firstName: null, lastName: null, identity: undefined }
  const created = await createPerson(provision, { ...unnamed, userType: 'client-managed', email, username, externalId })
  const userId = created.row.id
  if (created.isNew) await addMember(provision, { organization: { id }, person: { id: userId }, role, replaces: false })
  else if ((await findMembership(provision, id, userId))?.role !== role)
    throw new ProvisionRefusal(
      `external id "${externalId}" is user ${userId}, who is not ${role} of organization ${id}; nothing was changed: ` +
        '"sallyport members add" gives the role',
    )
  return created
}
