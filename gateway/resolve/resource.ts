import type { AgentRecord, Directory } from '../directory/directory.ts'
import { type Awaitable, andThen } from '../lib/awaitable.ts'
import type { RouteMatch } from '../route/table.ts'
import { parseId } from './organization-id.ts'

export type Resource = Readonly<{ kind: 'agent'; agent: AgentRecord | undefined }>

export function resolveResource(
  match: RouteMatch,
  directory: Pick<Directory, 'findAgent'>,
): Awaitable<Resource | undefined> {
  const { resource } = match.route
  if (!resource) return undefined
  const { kind, param } = resource
  const id = parseId(match.params.get(param) ?? '')
  if (id === undefined) return { kind, agent: undefined }
  return andThen(directory.findAgent(id), (agent) => ({ kind, agent }))
}
