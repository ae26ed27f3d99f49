import type { UserRecord } from '../../directory.ts'
import {
  type Created,
  createOnce,
  externalIdOf,
  listedRows,
  type Provision,
  ProvisionRefusal,
  sourceOf,
} from './provisioning.ts'

export type ManagedUser = Readonly<{
  id: number
  email: string
  isEmailVerified: boolean
  userType: UserRecord['userType']
  username: string | null
  firstName: string | null
  lastName: string | null
  externalId: string | null
  disabledAt: Date | null
  identities: readonly PersonIdentity[]
}>

export type PersonIdentity = Readonly<{ issuer: string; subject: string }>

export type NewPerson = Readonly<{
  userType: UserRecord['userType']
  email: string
  isEmailVerified: boolean
  username: string | null
  firstName: string | null
  lastName: string | null
  identity: PersonIdentity | undefined
  externalId: string | undefined
}>

/** An address names a user only where it is verified, since others may be chosen freely. */
export type PersonReference = Readonly<{ id: number } | PersonIdentity | { email: string } | { externalId: string }>

async function select(provision: Provision, name: string, condition: string, values: readonly unknown[]) {
  const text = `select u.id, u.email, coalesce(to_jsonb(u) -> 'email_verified' = 'true'::jsonb, false) as "isEmailVerified",
      u.user_type as "userType", u.username, u.first_name as "firstName", u.last_name as "lastName",
      ${externalIdOf(provision, 'user', 'u.id')} as "externalId",
      (to_jsonb(u) ->> 'disabled_at')::timestamptz as "disabledAt",
      coalesce((
        select json_agg(json_build_object('issuer', i.issuer, 'subject', i.subject) order by i.issuer, i.subject)
        from sallyport_directory.user_identities i where i.user_id = u.id
      ), '[]'::json) as identities
    from ${sourceOf(provision, 'users')} u where ${condition}`
  return provision.query<ManagedUser>({ name, text }, values)
}

const byIdentity = `u.id in (select i.user_id from sallyport_directory.user_identities i
  where i.issuer = $1 and i.subject = $2)`

const byExternalId = `u.id in (select x.user_id from sallyport_directory.external_references x
  where x.kind = 'user' and x.external_id = $1)`

export async function requirePerson(provision: Provision, reference: PersonReference): Promise<ManagedUser> {
  if ('email' in reference) return requireByEmail(provision, reference.email)
  if ('externalId' in reference) {
    const [found] = await select(provision, 'find-person-by-external-id', byExternalId, [reference.externalId])
    if (found) return found
    throw new ProvisionRefusal(
      `no user has the external id "${reference.externalId}"; correct it, or create the user first`,
    )
  }
  const [found] =
    'id' in reference
      ? await select(provision, 'find-person-by-id', 'u.id = $1', [reference.id])
      : await select(provision, 'find-person-by-identity', byIdentity, [reference.issuer, reference.subject])
  if (found) return found
  throw new ProvisionRefusal(
    'id' in reference
      ? `user ${reference.id} does not exist; "sallyport users find --issuer URL --subject SUB" finds another`
      : `no user has the subject "${reference.subject}" of issuer ${reference.issuer}; ` +
          'log in once, or run "sallyport users create"',
  )
}

/** Two users with one address are rare; the message names them all in one line. */
const mostNamedUsers = 10

async function requireByEmail(provision: Provision, email: string): Promise<ManagedUser> {
  const condition = `lower(u.email::text collate "C") = lower($1::text collate "C") and u.user_type = 'human'
    order by coalesce(to_jsonb(u) -> 'email_verified' = 'true'::jsonb, false) desc, u.id limit ${mostNamedUsers}`
  const users = await select(provision, 'find-people-by-email', condition, [email])
  const verified = users.filter(({ isEmailVerified }) => isEmailVerified)
  const [only] = verified
  if (only && verified.length === 1) return only
  const help = 'name the user by its id, or by --issuer and --subject'
  if (users.length === 0) throw new ProvisionRefusal(`no user has the address ${email}; ${help}`)
  const named = users.map(({ id, isEmailVerified }) => `${id} ${isEmailVerified ? 'verified' : 'not verified'}`)
  throw new ProvisionRefusal(
    verified.length > 1
      ? `more than one user has the verified address ${email} (${named.join(', ')}); ${help}`
      : `the address ${email} is not verified and may be another person's (${named.join(', ')}); ${help}`,
  )
}

const insertUser = {
  name: 'insert-user',
  text: `insert into sallyport_directory.managed_users
    (email, username, first_name, last_name, full_name, user_type, email_verified)
    values ($1, $2, $3, $4, $5, $6, $7) returning id`,
}

const insertIdentity = {
  name: 'insert-identity',
  text: `insert into sallyport_directory.user_identities (user_id, issuer, subject) values ($1, $2, $3)
    on conflict (issuer, subject) do nothing returning user_id`,
}

export async function createPerson(provision: Provision, person: NewPerson): Promise<Created<ManagedUser>> {
  return createOnce<ManagedUser>(provision, {
    kind: 'user',
    externalId: person.externalId,
    find: async (id) => (await select(provision, 'find-person-by-id', 'u.id = $1', [id]))[0],
    differences: (row) => findDifferences(row, person),
    insert: async () => {
      const { email, username, firstName, lastName, userType, isEmailVerified, identity } = person
      const fullName = [firstName, lastName].filter((name) => name !== null).join(' ') || null
      const values = [email, username, firstName, lastName, fullName, userType, isEmailVerified]
      if (identity) await refuseTaken(provision, identity)
      const [created] = await provision.query<{ id: number }>(insertUser, values)
      if (!created)
        throw new ProvisionRefusal(
          `a disabled user has the verified address ${email}: "sallyport users enable --email ${email}" takes that back`,
        )
      if (identity) await provision.query(insertIdentity, [created.id, identity.issuer, identity.subject])
      await provision.note({ action: 'user.created', userId: created.id })
      return created.id
    },
  })
}

async function refuseTaken(provision: Provision, { issuer, subject }: PersonIdentity): Promise<void> {
  const [taken] = await select(provision, 'find-person-by-identity', byIdentity, [issuer, subject])
  if (taken)
    throw new ProvisionRefusal(`"${subject}" of issuer ${issuer} is user ${taken.id} already; nothing was created`)
}

function findDifferences(row: ManagedUser, { identity, ...person }: NewPerson): readonly string[] {
  const fields = { userType: 'type', email: 'address', username: 'username' } as const
  const names = Object.entries(fields) as [keyof typeof fields, string][]
  const isIdentityThere =
    !identity ||
    row.identities.some(({ issuer, subject }) => issuer === identity.issuer && subject === identity.subject)
  return [
    ...names.flatMap(([field, name]) => (row[field] === person[field] ? [] : [name])),
    ...(row.firstName === person.firstName && row.lastName === person.lastName ? [] : ['name']),
    ...(isIdentityThere ? [] : ['identity']),
    // A login may have verified an address that the command leaves open.
    ...(person.isEmailVerified && !row.isEmailVerified ? ['state: its address is not verified'] : []),
    ...(row.disabledAt === null ? [] : ['state: it is disabled']),
  ]
}

export function listServiceAccounts(
  provision: Provision,
  afterId: number,
  organizationId: number | null,
): Promise<readonly ManagedUser[]> {
  const condition = `u.user_type = 'client-managed' and u.id > $1 and ($2::int is null or exists (
      select from sallyport_directory.role_assignments r where r.user_id = u.id and r.organization_id = $2
    )) order by u.id limit ${listedRows}`
  return select(provision, 'list-service-accounts', condition, [afterId, organizationId])
}

const setDisabled = {
  name: 'set-disabled',
  text: `update sallyport_directory.managed_users set disabled_at = case when $2 then now() end, updated_at = now()
    where id = $1 and (disabled_at is not null) <> $2 returning id`,
}

/** To the gateway, a disabled user and its tokens do not exist. Its memberships stay. */
export async function setPersonDisabled(
  provision: Provision,
  reference: PersonReference,
  isDisabled: boolean,
  userType?: UserRecord['userType'],
): Promise<ManagedUser> {
  const found = await requirePerson(provision, reference)
  if (userType !== undefined && found.userType !== userType)
    throw new ProvisionRefusal(`user ${found.id} is ${found.userType}, not a service account; see "sallyport users"`)
  const changed = await provision.query(setDisabled, [found.id, isDisabled])
  if (changed.length > 0)
    await provision.note({ action: isDisabled ? 'user.disabled' : 'user.enabled', userId: found.id })
  return requirePerson(provision, { id: found.id })
}
