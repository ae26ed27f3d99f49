import type { Principal } from '../authenticate/principal.ts'
import type { Caller } from '../authorize/decide.ts'
import { listLevels } from '../policy/resource-kind.ts'
import type { GuardedResource, Route } from '../policy/route.ts'
import type { Organization } from '../resolve/organization.ts'
import type { Resource } from '../resolve/resource.ts'

export type HypotheticalCaller = Readonly<{
  role: string | undefined
  platformRoles: readonly string[]
  tokenAbilities: readonly string[] | undefined
  agent: 'own' | 'public' | 'foreign'
  pathOrganization?: 'own' | 'foreign'
}>

const here = { id: 1, slug: 'an-organization', accountType: 'enterprise' } as const

const elsewhere = here.id + 1

export const organizationInPath = ({ pathOrganization }: HypotheticalCaller): number =>
  pathOrganization === 'foreign' ? elsewhere : here.id

export function createHypotheticalCaller(
  { role, platformRoles, tokenAbilities, agent }: HypotheticalCaller,
  guarded: Route['resource'],
): Caller {
  const organization: Organization | undefined = role === undefined ? undefined : { ...here, role }
  const credential: Principal['credential'] = tokenAbilities
    ? { kind: 'api-token', id: 1, name: null, abilities: tokenAbilities, lastUsedAt: null, expiresAt: null }
    : { kind: 'oauth', expiresAt: new Date(0) }
  const user: Principal['user'] = {
    id: 1,
    email: 'caller@example.com',
    emailVerified: true,
    username: null,
    firstName: null,
    lastName: null,
    fullName: null,
    userType: tokenAbilities ? 'client-managed' : 'human',
    currentOrganizationId: null,
    roles: [
      ...(role === undefined ? [] : [{ id: 1, role, organization: here }]),
      ...platformRoles.map((platformRole, index) => ({ id: index + 2, role: platformRole, organization: null })),
    ],
  }
  return { principal: { user, credential }, organization, resource: guarded && imagineResource(guarded, agent) }
}

function imagineResource(guarded: GuardedResource, whose: HypotheticalCaller['agent']): Resource {
  const organizationId = whose === 'own' ? here.id : elsewhere
  if (guarded.kind === 'agent') return { kind: 'agent', agent: { id: 1, organizationId, isPublic: whose === 'public' } }
  const visibility = whose === 'public' ? 'public' : 'organization'
  const levels = listLevels(guarded.object).map(() => ({ id: '1', organizationId, ownerId: null, visibility }) as const)
  return { kind: 'object', record: { levels } }
}
