import type { Principal } from '../../authenticate/principal.ts'
import { decide } from '../../authorize/decide.ts'
import type { Directory, KnownUser, MemberName, UserRecord } from '../../directory/directory.ts'
import { GatewayError } from '../../errors/gateway-error.ts'
import type { Awaitable } from '../../lib/awaitable.ts'
import type { Snapshot } from '../../pipeline.ts'
import type { Route } from '../../policy/route.ts'
import { readTarget } from '../../receive/target.ts'
import { findMembership, type Organization } from '../../resolve/organization.ts'
import { parseId } from '../../resolve/organization-id.ts'
import { findGuarded } from '../../resolve/resource.ts'
import { readResourceIds } from '../../resolve/resource-ids.ts'
import type { RouteMatch } from '../../route/table.ts'
import type { AccessQuestion, NamedEntity } from './questions.ts'

export type SubjectNaming = 'id' | 'username'

type Lookups = Pick<Directory<KnownUser>, 'findNamedMember' | 'findAgent' | 'findResource'>

type ImaginedRequest = Readonly<{ match: RouteMatch; ids: readonly string[] }>

/**
 * Answers as the gateway would answer the subject's own request in this organization. A user from outside of it is
 * unknown here, and so is a resource that another organization owns.
 */
export const createEvaluate =
  (directory: Lookups, naming: SubjectNaming) =>
  async (question: AccessQuestion, organizationId: number, snapshot: Snapshot): Promise<boolean> => {
    const user = await findSubject(question.subject, organizationId, naming, directory)
    const organization = user && findMembership(user, organizationId)
    if (!user || !organization) return false
    // A session of the user has all abilities of the role; a token of theirs may have fewer.
    const principal: Principal = { user, credential: { kind: 'oauth', expiresAt: new Date(8.64e15) } }
    const requests = imagineRequests(question, snapshot)
    for (const request of requests)
      if (!(await isAllowed(request, { principal, organization }, snapshot, directory))) return false
    return requests.length > 0
  }

const longestName = 255

function findSubject(
  { type, id }: NamedEntity,
  organizationId: number,
  naming: SubjectNaming,
  directory: Lookups,
): Awaitable<UserRecord | undefined> {
  const name = type === 'user' ? readName(id, naming) : undefined
  return name && directory.findNamedMember(organizationId, name)
}

function readName(id: string, naming: SubjectNaming): MemberName | undefined {
  if (naming === 'username') return id.length > longestName || /\p{Cc}/u.test(id) ? undefined : { username: id }
  const userId = parseId(id)
  return userId === undefined ? undefined : { id: userId }
}

/** A path is asked for by its method. A resource is asked for by the verb of the abilities that its routes require. */
function imagineRequests(
  { action, resource }: AccessQuestion,
  { table, routes }: Snapshot,
): readonly ImaginedRequest[] {
  if (resource.type === 'path') return imaginePath(action, resource.id, table)
  return (routesByAction(routes).get(`${resource.type} ${action}`) ?? []).map((route) => {
    const target = {
      method: [...route.methods][0] ?? 'GET',
      path: route.path,
      search: '',
      segments: [],
      hasEncodedSlash: false,
    }
    return { match: { route, target, params: new Map(), rest: undefined }, ids: [resource.id] }
  })
}

function imaginePath(method: string, path: string, table: Snapshot['table']): readonly ImaginedRequest[] {
  if (!path.startsWith('/')) return []
  try {
    const match = table.match(readTarget(method, path, ''), '')
    const ids = readResourceIds(match, [])
    return ids ? [{ match, ids }] : []
  } catch (error) {
    if (error instanceof GatewayError) return []
    throw error
  }
}

const tables = new WeakMap<readonly Route[], ReadonlyMap<string, readonly Route[]>>()

function routesByAction(routes: readonly Route[]): ReadonlyMap<string, readonly Route[]> {
  const known = tables.get(routes)
  if (known) return known
  const found = new Map<string, readonly Route[]>()
  for (const route of routes) {
    const { resource, ability = '' } = route
    const kind = resource?.kind === 'object' ? resource.object.name : resource?.kind
    const [, verb] = ability.split(':')
    if (kind === undefined || verb === undefined) continue
    const name = `${kind} ${verb}`
    found.set(name, [...(found.get(name) ?? []), route])
  }
  tables.set(routes, found)
  return found
}

async function isAllowed(
  { match, ids }: ImaginedRequest,
  { principal, organization }: Readonly<{ principal: Principal; organization: Organization }>,
  { roles, locate }: Snapshot,
  directory: Lookups,
): Promise<boolean> {
  const { organizationParam, destination } = match.route
  const named = organizationParam === undefined ? undefined : match.params.get(organizationParam)
  if (named !== undefined && parseId(named) !== organization.id) return false
  const resource = await findGuarded(match, ids, organization, directory)
  const decision = decide(match, { principal, organization, resource }, roles)
  if (!decision.isAllowed) return false
  if (destination.kind !== 'cluster') return true
  try {
    await locate(decision.permit, '')
    return true
  } catch (error) {
    if (error instanceof GatewayError && (error.status < 500 || error.code === 'cluster_offline')) return false
    throw error
  }
}
