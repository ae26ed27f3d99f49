import { nameUser } from '../../directory/directory.ts'
import type { Permit, PermittedCaller } from '../authorize/decide.ts'
import type { Upstream } from '../locate/upstream.ts'

export type IdentityClaims = Readonly<{
  iss: string
  aud: string
  sub: string
  user: Readonly<{ id: number | undefined; externalId?: string; type: string; email: string; emailVerified: boolean }>
  organization: Readonly<{ id: number; externalId?: string; slug: string; role: string }> | null
  roles: readonly string[]
  abilities: readonly string[]
  credential: Readonly<{ kind: 'oauth' } | { kind: 'api-token'; id: number }>
  htm?: string
  htu?: string
}>

/** The role is the member's own; a bypass scope shows in the abilities. */
export function composeIdentity(
  issuer: string,
  permit: Permit,
  caller: PermittedCaller,
  upstream: Upstream,
): IdentityClaims {
  const { principal, organization, permissions } = caller
  const { user, credential } = principal
  const { target } = permit.match
  return {
    iss: issuer,
    aud: upstream.name,
    sub: String(nameUser(user)),
    user: { ...nameRecord(user), type: user.userType, email: user.email, emailVerified: user.emailVerified },
    organization: organization
      ? { ...nameRecord(organization), slug: organization.slug, role: organization.role }
      : null,
    roles: rolesInForce(caller),
    abilities: permissions.abilities === '*' ? ['*'] : [...permissions.abilities].sort(),
    credential: credential.kind === 'oauth' ? { kind: 'oauth' } : { kind: 'api-token', id: credential.id },
    ...(upstream.isBound && { htm: target.method, htu: upstream.path }),
  }
}

const nameRecord = <Id>({ id, externalId }: Readonly<{ id: Id; externalId?: string | null }>) =>
  typeof externalId === 'string' ? { id, externalId } : { id }

function rolesInForce({ principal, organization }: PermittedCaller): readonly string[] {
  const here = principal.user.roles.filter(({ organization: at }) => at !== null && at.id === organization?.id)
  const platform = principal.user.roles.filter(({ organization: at }) => at === null)
  return [...here, ...platform].map(({ role }) => role)
}
