import { loadConfiguration } from '../configuration/configuration.ts'
import { UsageError } from '../configuration/failure.ts'
import type { AuditContext, Directory, UserRecord } from '../directory/directory.ts'
import { readTokenTrail, type TokenDeed } from '../directory/postgres/audit.ts'
import { type ClusterStatus, type ClusterStore, createClusterStore } from '../directory/postgres/cluster-store.ts'
import { createPostgresDirectory, findUser } from '../directory/postgres/directory.ts'
import { openDatabase } from '../directory/postgres/pool.ts'
import { createProvisioning, type Provisioning } from '../directory/postgres/provision/provisioning.ts'
import { loadPolicy } from '../policy/load.ts'
import type { Roles } from '../policy/role.ts'
import { parseId } from '../resolve/organization-id.ts'
import { hearClusters } from './heartbeats.ts'

/** What a command may ask and change without a gateway running. */
export type CommandTools = Readonly<{
  directory: Directory
  findUser: (id: number) => Promise<UserRecord | undefined>
  readTokenTrail: (tokenId: number) => Promise<readonly TokenDeed[]>
  clusters: ClusterStore
  staleAfterMs: number
  /** The clusters as the proxy sees them, by the newer of their two heartbeats. */
  hear: (clusters: readonly ClusterStatus[]) => Promise<readonly ClusterStatus[]>
  roles: Roles
  provisioning: Provisioning
  /** Issuers whose subjects may name users. */
  issuers: ReadonlySet<string>
}>

/** A person can wait where a request cannot, and writes from farther away. */
const patienceMs = 10_000

/** Works on the database of a configuration, by the very statements of the gateway, and closes it again. */
export async function withDirectory<Result>(
  configurationFile: string,
  work: (tools: CommandTools) => Promise<Result>,
): Promise<Result> {
  const { database, redis, policies, upstreams, cluster, issuers } = loadConfiguration(configurationFile, process.env)
  const { roles } = loadPolicy(policies.directory, new Set(Object.keys(upstreams)))
  const settings = {
    url: database.url,
    pooler: database.pooler,
    poolSize: 1,
    connectTimeoutMs: Math.max(database.connectTimeoutMs, patienceMs),
    queryTimeoutMs: Math.max(database.queryTimeoutMs, patienceMs),
  }
  // A connection that breaks while idle is found out by the next statement.
  const opened = openDatabase(settings, () => undefined)
  const directory = createPostgresDirectory(opened, { noteTokenUse: () => undefined, onLinked: () => undefined })
  try {
    return await work({
      directory,
      findUser: (id) => findUser(opened.query, id),
      readTokenTrail: (tokenId) => readTokenTrail(opened.query, tokenId),
      clusters: createClusterStore(opened),
      staleAfterMs: cluster.staleAfterMs,
      hear: (clusters) => hearClusters(redis, clusters),
      roles,
      provisioning: createProvisioning(opened),
      issuers: new Set(issuers.map(({ issuer }) => issuer)),
    })
  } finally {
    await opened.close()
  }
}

/** How the audit trail speaks of a deed that came in through no door of the gateway. */
export const commandLineAudit = (organizationId: number | null, requestId: string): AuditContext => ({
  actorId: null,
  credential: 'command-line',
  organizationId,
  clientAddress: 'command-line',
  requestId,
})

/** An id as an operator wrote it. */
export function readId(what: string, text: string): number {
  const id = parseId(text)
  if (id === undefined) throw new UsageError(`${what} must be the number of a row, such as 8`)
  return id
}
