import type { UserRecord } from '../../directory.ts'
import { type OrganizationReference, requireActiveOrganization, requireOrganization } from './organizations.ts'
import { type PersonReference, requirePerson } from './people.ts'
import { listedRows, type Provision, ProvisionRefusal, refuseDeclared, sourceOf } from './provisioning.ts'

export type Membership = Readonly<{
  organizationId: number
  userId: number
  role: string
  email: string
  userType: UserRecord['userType']
  disabledAt: Date | null
}>

async function select(provision: Provision, name: string, condition: string, values: readonly unknown[]) {
  const text = `select r.organization_id as "organizationId", r.user_id as "userId", r.role, u.email,
      u.user_type as "userType", (to_jsonb(u) ->> 'disabled_at')::timestamptz as "disabledAt"
    from sallyport_directory.role_assignments r join ${sourceOf(provision, 'users')} u on u.id = r.user_id
    where r.organization_id = $1 and ${condition}`
  return provision.query<Membership>({ name, text }, values)
}

export const findMembership = async (provision: Provision, organizationId: number, userId: number) =>
  (await select(provision, 'find-membership', 'r.user_id = $2', [organizationId, userId]))[0]

export async function listMembers(
  provision: Provision,
  organization: OrganizationReference,
  afterId: number,
): Promise<readonly Membership[]> {
  const { id } = await requireOrganization(provision, organization)
  return select(provision, 'list-members', `r.user_id > $2 order by r.user_id limit ${listedRows}`, [id, afterId])
}

export type MembershipRequest = Readonly<{
  organization: OrganizationReference
  person: PersonReference
  role: string
  replaces: boolean
}>

const insertMember = {
  name: 'insert-member',
  text: `insert into sallyport_directory.role_assignments (user_id, organization_id, role) values ($1, $2, $3)
    on conflict (user_id, organization_id) do update set role = excluded.role`,
}

export type MembershipChange = Readonly<{ membership: Membership; isNew: boolean; was: string | undefined }>

export async function addMember(
  provision: Provision,
  { organization, person, role, replaces }: MembershipRequest,
): Promise<MembershipChange> {
  const { id: organizationId, slug } = await requireActiveOrganization(provision, organization)
  refuseDeclared(provision, { id: organizationId, slug })
  const { id: userId, disabledAt } = await requirePerson(provision, person)
  if (disabledAt) throw new ProvisionRefusal(`user ${userId} is disabled; "sallyport users enable" takes that back`)
  const before = await findMembership(provision, organizationId, userId)
  if (before?.role === role) return { membership: before, isNew: false, was: role }
  if (before && !replaces)
    throw new ProvisionRefusal(
      `user ${userId} is ${before.role} of organization ${organizationId} already; --replace changes the role`,
    )
  await provision.query(insertMember, [userId, organizationId, role])
  await provision.note({ action: before ? 'member.changed' : 'member.added', organizationId, userId, role })
  const membership = await findMembership(provision, organizationId, userId)
  if (!membership)
    throw new ProvisionRefusal(
      `the database declined the role of user ${userId} in ${organizationId}; a trigger of its table may say why`,
    )
  return { membership, isNew: true, was: before?.role }
}

const deleteMember = {
  name: 'delete-member',
  text: 'delete from sallyport_directory.role_assignments where organization_id = $1 and user_id = $2 returning role',
}

export async function removeMember(
  provision: Provision,
  organization: OrganizationReference,
  person: PersonReference,
): Promise<Membership> {
  const { id: organizationId } = await requireOrganization(provision, organization)
  const { id: userId } = await requirePerson(provision, person)
  const before = await findMembership(provision, organizationId, userId)
  if (!before)
    throw new ProvisionRefusal(
      `user ${userId} is not a member of organization ${organizationId}; "sallyport members list" shows its members`,
    )
  await provision.query(deleteMember, [organizationId, userId])
  await provision.note({ action: 'member.removed', organizationId, userId, role: before.role })
  return before
}
