import { GatewayError } from '../../base/errors/gateway-error.ts'
import { type Awaitable, andThen } from '../../base/lib/awaitable.ts'
import type {
  AgentRecord,
  Directory,
  ForeignResource,
  ResourceName,
  ResourceRecord,
} from '../../directory/directory.ts'
import { isResourceId, listLevels } from '../../policy/resource-kind.ts'
import type { RouteMatch } from '../route/table.ts'
import type { Organization } from './organization.ts'
import { parseId } from './organization-id.ts'
import { readResourceIds } from './resource-ids.ts'

export type Resource =
  | Readonly<{ kind: 'agent'; agent: AgentRecord | ForeignResource | undefined }>
  | Readonly<{ kind: 'object'; record: ResourceRecord | ForeignResource | undefined }>

export function resolveResource(
  match: RouteMatch,
  organization: Organization | undefined,
  directory: Lookups,
  headers: readonly string[],
): Awaitable<Resource | undefined> {
  const { resource, questions } = match.route
  if (!resource && questions.length === 0) return undefined
  const ids = readResourceIds(match, headers)
  if (!ids) throw new GatewayError('query_like_guarded_param')
  return findGuarded(match, ids, organization, directory)
}

type Lookups = Pick<Directory, 'findAgent' | 'findResource'>

/** Takes the ids of the resource and of its ancestors, nearest first. Ancestors that are left out may be any. */
export function findGuarded(
  match: RouteMatch,
  ids: readonly string[],
  organization: Organization | undefined,
  directory: Lookups,
): Awaitable<Resource | undefined> {
  const { resource } = match.route
  if (!resource) return undefined
  const { kind } = resource
  if (kind === 'agent') {
    const id = parseId(ids[0] ?? '')
    if (id === undefined) return { kind, agent: undefined }
    return andThen(directory.findAgent(id, organization?.id), (agent) => ({ kind, agent }))
  }
  const named = nameResource(match, ids)
  if (!named) return { kind, record: undefined }
  const { parentIds, ...name } = named
  return andThen(directory.findResource({ ...name, organizationId: organization?.id }), (record) => ({
    kind,
    record: isBelow(record, parentIds) ? record : undefined,
  }))
}

type NamedResource = ResourceName & Readonly<{ parentIds: readonly string[] }>

/** Undefined also if an id is not in the one spelling of its kind. */
export function nameResource({ route }: RouteMatch, ids: readonly string[]): NamedResource | undefined {
  const { resource } = route
  if (resource?.kind !== 'object') return undefined
  const levels = listLevels(resource.object)
  const isSound = ids.every((id, index) => levels[index] && isResourceId(levels[index].idType, id))
  const [id, ...parentIds] = ids
  return isSound && id !== undefined ? { kind: resource.object, id, parentIds } : undefined
}

const isBelow = (record: ResourceRecord | ForeignResource | undefined, parentIds: readonly string[]): boolean =>
  typeof record !== 'object' || parentIds.every((id, index) => record.levels[index + 1]?.id === id)
