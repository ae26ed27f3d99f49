import { GatewayError } from '../base/errors/gateway-error.ts'
import type { DirectoryStore, UserRecord } from '../directory/directory.ts'
import type { Policy } from '../policy/compile.ts'
import type { Principal, PrincipalCredential } from '../stages/authenticate/principal.ts'
import { type CallerWithPermissions, ownsAgent, seenAgent, seesObject } from '../stages/authorize/decide.ts'
import { effectivePermissions } from '../stages/authorize/permissions.ts'
import { readTarget } from '../stages/receive/target.ts'
import { type Organization, resolveOrganization } from '../stages/resolve/organization.ts'
import { resolveResource } from '../stages/resolve/resource.ts'
import { compileRoutes, type RouteMatch } from '../stages/route/table.ts'
import type { ExplainedRequest } from './explain.ts'
import type { HypotheticalCaller } from './hypothetical-caller.ts'

export type Wanted = Readonly<{ user: number; organization: number | undefined; token: number | undefined }>

type Tools = Readonly<{
  directory: Pick<DirectoryStore, 'findAgent' | 'findResource' | 'findToken'>
  findUser: (id: number) => Promise<UserRecord | undefined>
}>

export async function findCaller(
  request: Pick<ExplainedRequest, 'method' | 'target' | 'host'>,
  wanted: Wanted,
  policy: Policy,
  { directory, findUser }: Tools,
): Promise<Pick<ExplainedRequest, 'caller' | 'refusal'>> {
  const user = await findUser(wanted.user)
  if (!user) throw new Error(`user ${wanted.user} does not exist. Name another with --user.`)
  const principal: Principal = { user, credential: await findProof(wanted, directory) }
  const match = findMatch(request, policy)
  if (!match) return { caller: composeCaller(principal, undefined, 'own') }
  try {
    const organizationId = wanted.organization === undefined ? [] : [String(wanted.organization)]
    const organization = resolveOrganization(principal, match, { organizationId, cookie: [] })
    const resource = await resolveResource(match, organization, directory, [])
    const permissions = effectivePermissions(principal, organization, policy.roles)
    const whose = findOwnership(match, { principal, organization, resource, permissions })
    return { caller: composeCaller(principal, organization, whose) }
  } catch (error) {
    const refusal = GatewayError.from(error)
    if (refusal.status >= 500) throw error
    return { caller: undefined, refusal }
  }
}

function findOwnership({ route }: RouteMatch, caller: CallerWithPermissions): HypotheticalCaller['agent'] {
  const { organization, resource } = caller
  if (resource?.kind === 'agent')
    return seenAgent(resource)?.isPublic ? 'public' : ownsAgent(caller) ? 'own' : 'foreign'
  if (!resource || typeof resource.record !== 'object' || !seesObject(route, caller)) return 'foreign'
  return resource.record.levels.every(({ organizationId }) => organizationId === organization?.id) ? 'own' : 'public'
}

async function findProof({ user, token }: Wanted, { findToken }: Tools['directory']): Promise<PrincipalCredential> {
  if (token === undefined) return { kind: 'oauth', expiresAt: new Date(0) }
  const record = await findToken(token)
  if (record?.user.id !== user) throw new Error(`user ${user} has no token ${token}. Name another with --token.`)
  const { id, name, abilities, lastUsedAt, expiresAt } = record
  if (expiresAt && expiresAt <= new Date()) throw new Error(`token ${token} has expired. Name another with --token.`)
  return { kind: 'api-token', id, name, abilities, lastUsedAt, expiresAt }
}

function findMatch({ method, target, host }: Pick<ExplainedRequest, 'method' | 'target' | 'host'>, { routes }: Policy) {
  try {
    return compileRoutes(routes).match(readTarget(method, target, host), host) satisfies RouteMatch
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}

const composeCaller = (
  { user, credential }: Principal,
  organization: Organization | undefined,
  agent: HypotheticalCaller['agent'],
): HypotheticalCaller => ({
  role: organization?.role,
  platformRoles: user.roles.filter((assignment) => assignment.organization === null).map(({ role }) => role),
  tokenAbilities: credential.abilities,
  agent,
})
