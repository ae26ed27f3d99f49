import type { ResourceKind } from '../../policy/resource-kind.ts'
import type { AgentRecord, ListedResource, ListPart, UserRecord } from '../directory.ts'
import type { Query } from './pool.ts'
import { readResources, seenFrom, statementsOf } from './resources.ts'
import { type AgentRow, toAgent } from './rows.ts'
import * as statements from './statements.ts'

export async function listMembers(
  query: Query,
  { organizationId, after = 0, limit }: ListPart<number>,
): Promise<readonly UserRecord[]> {
  const rows = await query<{ user: UserRecord }>(statements.listMembers, [organizationId, after, limit])
  return rows.map(({ user }) => user)
}

export async function findUniqueNames(
  query: Query,
  organizationId: number,
  usernames: readonly string[],
): Promise<ReadonlySet<number>> {
  const rows = await query<{ id: number }>(statements.findUniqueNames, [organizationId, usernames])
  return new Set(rows.map(({ id }) => id))
}

export async function listAgents(
  query: Query,
  { organizationId, after = 0, limit }: ListPart<number>,
): Promise<readonly AgentRecord[]> {
  const rows = await query<AgentRow>(statements.listAgents, [organizationId, after, limit])
  return rows.map(toAgent)
}

export async function listResources(
  query: Query,
  kind: ResourceKind,
  { organizationId, after, limit }: ListPart<string>,
): Promise<readonly ListedResource[]> {
  const { firstIds, nextIds } = statementsOf(kind)
  const rows = await (after === undefined
    ? query<{ id: string }>(firstIds, [organizationId, limit])
    : query<{ id: string }>(nextIds, [organizationId, limit, after]))
  const find = await readResources(
    query,
    rows.map(({ id }) => ({ kind, id })),
  )
  return rows.map(({ id }) => ({ id, record: seenFrom(organizationId, find({ kind, id })) }))
}
