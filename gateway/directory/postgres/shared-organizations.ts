import type { DeclaredOrganizations } from '../../policy/organizations.ts'
import type { Query, Statement } from './pool.ts'

export type SharedOrganization = Readonly<{ id: number; slug: string }>

export const findShared: Statement = {
  name: 'find-shared-organizations',
  text: `select id, slug from sallyport_directory.organizations
    where id = any($1::integer[]) or slug = any($2::text[]) order by id limit 20`,
}

const nameDeclared = ({ byId, bySlug }: DeclaredOrganizations): readonly [number[], string[]] => [
  [...byId.keys()],
  [...bySlug.keys()],
]

export const describeShared = (shared: readonly SharedOrganization[]): string =>
  `the database has ${shared.map(({ id, slug }) => `organization ${id} (${slug})`).join(', ')}, whose id or slug the policy declares`

export const findRemovedIdentity: Statement = {
  name: 'find-removed-identity',
  text: 'select true as is_removed from sallyport_directory.removed_identities where issuer = $1 and subject = $2',
}

export const areRemovalsNoted: Statement = {
  name: 'are-removals-noted',
  text: `select coalesce(bit_or(tgtype), 0)::int & 56 = 56 as is_noted from pg_trigger
    where tgrelid in (to_regclass('sallyport_directory.user_identities')::oid, to_regclass('user_identities')::oid)
      and tgenabled in ('O', 'A') and tgfoid in (
        to_regproc('sallyport_note_removed_identities')::oid, to_regproc('sallyport_directory.note_removed_identities')::oid
      )`,
}

export const unnoted = 'triggers that note removed identities are off: enable all triggers of user_identities'

export const createFindShared =
  (query: Query, policy: () => Readonly<{ organizations: DeclaredOrganizations }>) => async () => {
    const shared = await query<SharedOrganization>(findShared, nameDeclared(policy().organizations))
    return shared.length === 0 ? undefined : ({ state: 'limited', cause: describeShared(shared) } as const)
  }
