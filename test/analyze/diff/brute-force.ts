import { GatewayError } from '../../../gateway/base/errors/gateway-error.ts'
import type { ResourceLevel } from '../../../gateway/directory/directory.ts'
import type { Policy } from '../../../gateway/policy/compile.ts'
import { rewritePath } from '../../../gateway/policy/path-rewrite.ts'
import { listLevels, type ResourceKind } from '../../../gateway/policy/resource-kind.ts'
import { methods, parsePattern, type Route } from '../../../gateway/policy/route.ts'
import type { Principal } from '../../../gateway/stages/authenticate/principal.ts'
import { decide } from '../../../gateway/stages/authorize/decide.ts'
import { type RequestTarget, readTarget } from '../../../gateway/stages/receive/target.ts'
import { resolveOrganization } from '../../../gateway/stages/resolve/organization.ts'
import { type findGuarded, resolveResource } from '../../../gateway/stages/resolve/resource.ts'
import { otherReadings } from '../../../gateway/stages/route/readings.ts'
import { compileRoutes, type RouteMatch } from '../../../gateway/stages/route/table.ts'

export type Request = Readonly<{ method: string; host: string; target: string; header: string | undefined }>

export type Asker = Readonly<{
  role: string
  credential: string
  platformRole: string | undefined
  /** Undefined is OAuth; `scope` is a token minted anew under the policy in force. */
  abilities: readonly string[] | 'scope' | undefined
}>

type Row = Readonly<{
  parent: number
  organizationId: number
  ownerId: number
  visibility: ResourceLevel['visibility']
}>

const visibilities = ['organization', 'public', 'private'] as const

const states = [1, 2].flatMap((organizationId) =>
  [1, 2].flatMap((ownerId) => visibilities.map((visibility) => ({ organizationId, ownerId, visibility }))),
)

/** Each kind has a record of each state twice: first in record 1, which any member sees, and then in another each. */
export const rowCount = 2 * states.length

const rowOf = (id: number, salt: number): Row | undefined => {
  const state = states[(id - 1 + salt) % states.length]
  if (id < 1 || id > rowCount || !state) return undefined
  const first = (states.length - salt) % states.length
  return { ...state, parent: id <= states.length ? first + 1 : ((id * 5 + salt) % rowCount) + 1 }
}

/** Kinds have other states under one id, so that it matters which of them is meant. */
const salts: Readonly<Record<string, number>> = { dataset: 0, project: 0, folder: 7 }

const known = new WeakMap<ResourceKind, Map<number, readonly ResourceLevel[] | undefined>>()

function findLevels(kind: ResourceKind, id: number): readonly ResourceLevel[] | undefined {
  const ofKind = known.get(kind) ?? new Map<number, readonly ResourceLevel[] | undefined>()
  known.set(kind, ofKind)
  if (!ofKind.has(id)) ofKind.set(id, readLevels(kind, id))
  return ofKind.get(id)
}

/** Reads records as a view of the kind's keys gives them. */
function readLevels(kind: ResourceKind, id: number): readonly ResourceLevel[] | undefined {
  const levels: ResourceLevel[] = []
  let at = id
  for (const { name, hasOwner, hasVisibility } of listLevels(kind)) {
    const row = rowOf(at, salts[name] ?? 0)
    if (!row) return undefined
    levels.push({
      id: String(at),
      organizationId: row.organizationId,
      ownerId: hasOwner ? row.ownerId : null,
      visibility: hasVisibility ? row.visibility : 'organization',
    })
    at = row.parent
  }
  return levels
}

const directory: Parameters<typeof findGuarded>[3] = {
  findAgent: (id) => (id <= 4 ? { id, organizationId: 1 + (id % 2), isPublic: id > 2 } : undefined),
  findResource: ({ kind, id }) => {
    const levels = /^\d+$/.test(id) ? findLevels(kind, Number(id)) : undefined
    return levels && { levels }
  },
}

const organizations = [1, 2].map((id) => ({ id, slug: `o${id}`, accountType: 'team' }) as const)

function principalOf({ role, platformRole, abilities }: Asker, { roles }: Policy): Principal | undefined {
  if (role === 'anonymous') return undefined
  const held = abilities === 'scope' ? roles.tokenScopes.get('api-key') : abilities
  const [home] = organizations
  return {
    user: {
      id: 1,
      email: 'caller@example.com',
      emailVerified: true,
      username: null,
      firstName: null,
      lastName: null,
      fullName: null,
      userType: 'human',
      currentOrganizationId: null,
      roles: [
        ...(role === 'no organization' || !home ? [] : [{ id: 1, role, organization: home }]),
        ...(platformRole ? [{ id: 2, role: platformRole, organization: null }] : []),
      ],
    },
    credential: held
      ? { kind: 'api-token', id: 1, name: null, abilities: [...held], lastUsedAt: null, expiresAt: null }
      : { kind: 'oauth', expiresAt: new Date(0) },
  }
}

/** The route, the place where a permitted request goes, and the questions that a decision point has to grant. */
export type Verdict = Readonly<{ route: string | undefined; place?: string; asked?: readonly string[] }>

export type Judge = (match: RouteMatch | undefined, request: Request, asker: Asker) => Verdict

export function judgeBy(policy: Policy) {
  const table = compileRoutes(policy.routes)
  const find = ({ method, host, target }: Request): RouteMatch | undefined =>
    orRefused(() => table.match(readTarget(method, target, host), host))
  /** The route of a plain path, where `find` may refuse other readings of the path, or its encoded slash. */
  const nameRoute = (request: Request, segments = readPlainly(request)?.segments): string | undefined =>
    segments && table.find(segments, request.method, request.host)?.id
  const listReadings = (request: Request): readonly Reading[] => {
    const { method, host } = request
    const target = readPlainly(request)
    const readings = target ? (orRefused(() => otherReadings(target)) ?? []) : []
    return readings
      .filter((segments) => methods.some((name) => table.find(segments, name, host) !== undefined))
      .map((segments) => {
        const route = table.find(segments, method, host)
        return { segments, match: route && target && matchAt(route, { ...target, segments }) }
      })
  }
  const principals = new Map<Asker, Principal | undefined>()
  const judge: Judge = (match, request, asker) => {
    if (!match) return { route: undefined }
    if (!principals.has(asker)) principals.set(asker, principalOf(asker, policy))
    return orRefused(() => judgeAt(policy, match, request, principals.get(asker))) ?? { route: match.route.id }
  }
  return { find, nameRoute, listReadings, judge }
}

/** Another reading of a path that some route has; without a match where none has the method. */
export type Reading = Readonly<{ segments: readonly string[]; match: RouteMatch | undefined }>

const readPlainly = ({ method, host, target }: Request): RequestTarget | undefined =>
  orRefused(() => readTarget(method, target, host))

const matchAt = (route: Route, target: RequestTarget): RouteMatch => ({
  route,
  target,
  params: new Map(
    parsePattern(route.path).flatMap((segment, index): readonly (readonly [string, string])[] =>
      segment.kind === 'param' ? [[segment.name, target.segments[index] ?? '']] : [],
    ),
  ),
  rest: undefined,
  hostLabel: undefined,
})

function judgeAt(policy: Policy, match: RouteMatch, { header }: Request, principal: Principal | undefined): Verdict {
  const { route, params } = match
  const organization = principal && !route.isPublic ? resolveOrganization(principal, match, noHeaders) : undefined
  const headers = header === undefined ? [] : ['thing', header]
  // A public route looks nothing up.
  const resource =
    principal && !route.isPublic ? now(resolveResource(match, organization, directory, headers)) : undefined
  const caller = principal && { principal, organization, resource }
  if (!decide(match, caller, policy.roles).isAllowed) return { route: route.id }
  const levels = resource?.kind === 'object' && typeof resource.record === 'object' ? resource.record.levels : []
  const idOf = (level: number): string =>
    levels[level]?.id ??
    (resource?.kind === 'agent'
      ? `agent ${typeof resource.agent === 'object' ? resource.agent.id : resource.agent}`
      : 'nothing')
  const asked = route.questions.map(({ pdp, action, about }) => {
    const id = about.from === 'guarded' ? idOf(about.level) : about.from === 'path' ? params.get(about.param) : route.id
    return JSON.stringify([pdp, action, about.type, id])
  })
  return { route: route.id, place: placeOf(match), asked }
}

const noHeaders = { organizationId: [], cookie: [] }

const places = new WeakMap<RouteMatch, string>()

function placeOf(match: RouteMatch): string {
  const { route, target } = match
  const path = route.rewrite ? rewritePath(route.rewrite, target.path) : target.path
  const place = places.get(match) ?? JSON.stringify([route.destination, path])
  places.set(match, place)
  return place
}

function now<Value>(value: Value | Promise<Value>): Value {
  if (value instanceof Promise) throw new Error('the directory of the campaign answers at once')
  return value
}

function orRefused<Value>(act: () => Value): Value | undefined {
  try {
    return act()
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}

/** Whether a request passes that did not, where the decision points may give any answer, or goes elsewhere. */
export const isWider = (was: Verdict, now: Verdict): 'gains' | 'elsewhere' | undefined => {
  if (now.place === undefined) return undefined
  if (was.place === undefined) return 'gains'
  if (was.asked?.some((question) => !now.asked?.includes(question))) return 'gains'
  return was.place === now.place ? undefined : 'elsewhere'
}
