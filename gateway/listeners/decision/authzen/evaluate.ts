import { GatewayError } from '../../../base/errors/gateway-error.ts'
import type { Awaitable } from '../../../base/lib/awaitable.ts'
import type { Directory, KnownUser, MemberName, UserRecord } from '../../../directory/directory.ts'
import type { Snapshot } from '../../../pipeline.ts'
import { methods, type Route } from '../../../policy/route.ts'
import type { Principal } from '../../../stages/authenticate/principal.ts'
import { decide } from '../../../stages/authorize/decide.ts'
import type { Consult } from '../../../stages/consult/consult.ts'
import { isHost } from '../../../stages/receive/headers.ts'
import { readTarget } from '../../../stages/receive/target.ts'
import { findLabelled, findMembership, type Organization } from '../../../stages/resolve/organization.ts'
import { parseId } from '../../../stages/resolve/organization-id.ts'
import { findGuarded } from '../../../stages/resolve/resource.ts'
import { readResourceIds } from '../../../stages/resolve/resource-ids.ts'
import type { RouteMatch } from '../../../stages/route/table.ts'
import type { AccessQuestion, NamedEntity } from './questions.ts'

export type SubjectNaming = 'id' | 'username'

type Lookups = Pick<Directory<KnownUser>, 'findAgent' | 'findResource'>

type Members = Pick<Directory<KnownUser>, 'findNamedMember'>

type HypotheticalRequest = Readonly<{ match: RouteMatch; ids: readonly string[] }>

export type AskedPolicy = Pick<Snapshot, 'table' | 'routes' | 'roles' | 'locate'> & Readonly<{ consult: Consult }>

/**
 * Answers as the gateway would answer the subject's own request in this organization. A user from outside of it is
 * unknown here, and so is a resource that another organization owns.
 */
export const createEvaluate =
  (directory: Lookups & Members, naming: SubjectNaming) =>
  async (question: AccessQuestion, organizationId: number, policy: AskedPolicy): Promise<boolean> => {
    const user = await findSubject(question.subject, organizationId, naming, directory)
    return (
      user !== undefined && isUserAllowed(user, composeRequests(question, policy), organizationId, policy, directory)
    )
  }

export async function isUserAllowed(
  user: UserRecord,
  requests: readonly HypotheticalRequest[],
  organizationId: number,
  policy: AskedPolicy,
  directory: Lookups,
): Promise<boolean> {
  const organization = findMembership(user, organizationId)
  if (!organization) return false
  // A session of the user has all abilities of the role; a token of theirs may have fewer.
  const principal: Principal = { user, credential: { kind: 'oauth', expiresAt: new Date(8.64e15) } }
  for (const request of requests)
    if (!(await isAllowed(request, { principal, organization }, policy, directory))) return false
  return requests.length > 0
}

/** A usual `varchar(255)` of an adopted directory; a longer name is not looked for. */
const longestName = 255

export function findSubject(
  { type, id }: NamedEntity,
  organizationId: number,
  naming: SubjectNaming,
  directory: Members,
): Awaitable<UserRecord | undefined> {
  const name = type === 'user' ? readName(id, naming) : undefined
  return name && directory.findNamedMember(organizationId, name)
}

export function readName(id: string, naming: SubjectNaming): MemberName | undefined {
  if (naming === 'username') return id.length > longestName || /\p{Cc}/u.test(id) ? undefined : { username: id }
  const userId = parseId(id)
  return userId === undefined ? undefined : { id: userId }
}

/** A path is asked for by its method, and on a host of the policy by an absolute URL. A resource is asked for by the verb of the abilities that its routes require. */
export function composeRequests(
  { action, resource }: Pick<AccessQuestion, 'action' | 'resource'>,
  { table, routes }: Pick<Snapshot, 'table' | 'routes'>,
  host?: string,
): readonly HypotheticalRequest[] {
  if (resource.type === 'path') return composePath(action, resource.id, table, host)
  return listRoutes(resource.type, action, routes).map((route) => {
    const target = {
      method: [...route.methods][0] ?? 'GET',
      path: route.path,
      search: '',
      segments: [],
      hasEncodedSlash: false,
    }
    const place = route.resource?.place
    const params = new Map(place?.in === 'path' ? [[place.name, resource.id]] : [])
    return { match: { route, target, params, rest: undefined, hostLabel: undefined }, ids: [resource.id] }
  })
}

function composePath(
  method: string,
  path: string,
  table: Snapshot['table'],
  on?: string,
): readonly HypotheticalRequest[] {
  const [, named = ''] = /^https?:\/\/([^/?#\\]*)/i.exec(path) ?? []
  const host = on ?? named
  if ((host !== '' && !isHost(host)) || (named === '' && !path.startsWith('/'))) return []
  try {
    const match = table.match(readTarget(method, path, host), host)
    // A policy that names no host knows paths alone, and another text is not one.
    if (named !== '' && match.route.host === undefined) return []
    const ids = readResourceIds(match, [])
    return ids ? [{ match, ids }] : []
  } catch (error) {
    if (error instanceof GatewayError) return []
    throw error
  }
}

export const listRoutes = (kind: string, action: string, routes: readonly Route[]): readonly Route[] =>
  routesByAction(routes).get(`${kind} ${action}`) ?? []

export function listActions(kind: string, routes: readonly Route[]): readonly string[] {
  if (kind === 'path') return methods
  const prefix = `${kind} `
  const names = [...routesByAction(routes).keys()].filter((name) => name.startsWith(prefix))
  return names.map((name) => name.slice(prefix.length))
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

/** A resource is asked for without a host, so that the organization's own label has to name it. */
const isNamedByLabel = (match: RouteMatch, user: Pick<UserRecord, 'roles'>, { id, slug }: Organization): boolean =>
  match.route.hostLabel === undefined || findLabelled(user, match.hostLabel ?? slug)?.id === id

async function isAllowed(
  { match, ids }: HypotheticalRequest,
  { principal, organization }: Readonly<{ principal: Principal; organization: Organization }>,
  { roles, locate, consult }: AskedPolicy,
  directory: Lookups,
): Promise<boolean> {
  const { organizationParam, destination } = match.route
  const named = organizationParam === undefined ? undefined : match.params.get(organizationParam)
  if (named !== undefined && parseId(named) !== organization.id) return false
  if (!isNamedByLabel(match, principal.user, organization)) return false
  const resource = await findGuarded(match, ids, organization, directory)
  const decision = decide(match, { principal, organization, resource }, roles)
  if (!decision.isAllowed) return false
  try {
    const permit = decision.pending ? await consult(decision.pending) : decision.permit
    if (destination.kind === 'cluster') await locate(permit, '')
    return true
  } catch (error) {
    if (error instanceof GatewayError && (error.status < 500 || error.code === 'cluster_offline')) return false
    throw error
  }
}
