import { listLevels, type ResourceKind } from '../policy/resource-kind.ts'
import type { GuardedResource, Route } from '../policy/route.ts'
import type { Principal } from '../stages/authenticate/principal.ts'
import type { Caller } from '../stages/authorize/decide.ts'
import type { Organization } from '../stages/resolve/organization.ts'
import type { Resource } from '../stages/resolve/resource.ts'

export type HypotheticalCaller = Readonly<{
  role: string | undefined
  platformRoles: readonly string[]
  tokenAbilities: readonly string[] | undefined
  agent: 'own' | 'public' | 'foreign'
  pathOrganization?: 'own' | 'foreign'
  /** Takes the place of `agent` for a guard of another kind. */
  object?: HypotheticalObject
}>

export const objectStates = ['own', 'own private', "others' private", 'foreign', 'foreign public'] as const

export type ObjectState = (typeof objectStates)[number]

/** States by the name of a level, the caller's own where none is named. An object below another parent is not found. */
export type HypotheticalObject = 'wrong parent' | ((level: string) => ObjectState)

const here = { id: 1, slug: 'an-organization', accountType: 'enterprise' } as const

const elsewhere = here.id + 1

// Any id does: objects of another owner have the next one.
const callerId = 1

export const organizationInPath = ({ pathOrganization }: HypotheticalCaller): number =>
  pathOrganization === 'foreign' ? elsewhere : here.id

export function createHypotheticalCaller(
  { role, platformRoles, tokenAbilities, agent, object }: HypotheticalCaller,
  guarded: Route['resource'],
): Caller {
  const organization: Organization | undefined = role === undefined ? undefined : { ...here, role }
  const credential: Principal['credential'] = tokenAbilities
    ? { kind: 'api-token', id: 1, name: null, abilities: tokenAbilities, lastUsedAt: null, expiresAt: null }
    : { kind: 'oauth', expiresAt: new Date(0) }
  const user: Principal['user'] = {
    id: callerId,
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
  return { principal: { user, credential }, organization, resource: guarded && composeResource(guarded, agent, object) }
}

function composeResource(
  guarded: GuardedResource,
  whose: HypotheticalCaller['agent'],
  object: HypotheticalObject = () => objectLikeAgent[whose],
): Resource {
  const organizationId = whose === 'own' ? here.id : elsewhere
  if (guarded.kind === 'agent') return { kind: 'agent', agent: { id: 1, organizationId, isPublic: whose === 'public' } }
  if (object === 'wrong parent') return { kind: 'object', record: undefined }
  return { kind: 'object', record: { levels: listLevels(guarded.object).map((kind) => composeLevel(kind, object)) } }
}

const objectLikeAgent = { own: 'own', public: 'foreign public', foreign: 'foreign' } as const

/** As the directory reads it: without the key, a kind has no owner, and shows all its objects to the organization. */
function composeLevel({ name, hasOwner, hasVisibility }: ResourceKind, object: (level: string) => ObjectState) {
  const state = object(name)
  const visibility = state.endsWith('private') ? 'private' : state === 'foreign public' ? 'public' : 'organization'
  return {
    id: '1',
    organizationId: state.startsWith('foreign') ? elsewhere : here.id,
    ownerId: hasOwner ? (state === 'own private' ? callerId : callerId + 1) : null,
    visibility: hasVisibility ? visibility : 'organization',
  } as const
}
