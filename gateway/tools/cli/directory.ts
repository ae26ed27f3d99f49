import { loadConfiguration, requireDatabase } from '../../configuration/configuration.ts'
import { UsageError } from '../../configuration/failure.ts'
import { readUpstreamAddresses } from '../../configuration/upstream-addresses.ts'
import { createJoin, joinClaims } from '../../directory/claims/joined-directory.ts'
import type { AuditContext, DirectoryStore, UserRecord } from '../../directory/directory.ts'
import type { Login } from '../../directory/logout.ts'
import { LogoutTable } from '../../directory/logouts/logout-table.ts'
import { readTokenTrail, type TokenDeed } from '../../directory/postgres/audit.ts'
import { type ClusterStatus, type ClusterStore, createClusterStore } from '../../directory/postgres/cluster-store.ts'
import { createPostgresDirectory, findUser } from '../../directory/postgres/directory.ts'
import { requireUsable } from '../../directory/postgres/ledger-fault.ts'
import { createLogoutStore, type LogoutStore } from '../../directory/postgres/logouts.ts'
import { openDatabase } from '../../directory/postgres/pool.ts'
import { createProvisioning, type Provisioning } from '../../directory/postgres/provision/provisioning.ts'
import { createSessionEndStore, type SessionEndStore } from '../../directory/postgres/session-ends.ts'
import type { Policy } from '../../policy/compile.ts'
import { loadPolicy } from '../../policy/load.ts'
import type { Roles } from '../../policy/role.ts'
import { listIdentityIssuers } from '../../run/boot/issuer-trust.ts'
import { parseId } from '../../stages/resolve/organization-id.ts'
import { hearClusters, tellReplicas } from './heartbeats.ts'

export type CommandTools = Readonly<{
  directory: DirectoryStore
  findUser: (id: number) => Promise<UserRecord | undefined>
  readTokenTrail: (tokenId: number) => Promise<readonly TokenDeed[]>
  clusters: ClusterStore
  staleAfterMs: number
  hear: (clusters: readonly ClusterStatus[]) => Promise<readonly ClusterStatus[]>
  roles: Roles
  provisioning: Provisioning
  endSessions: SessionEndStore['add']
  hasEnded: (login: Login) => Promise<boolean>
  issuers: ReadonlySet<string>
}>

async function findLogout(store: LogoutStore, login: Login): Promise<boolean> {
  const table = new LogoutTable()
  const { logouts } = await store.readSince(0)
  for (const logout of logouts) table.add(logout)
  return table.hasEnded(login)
}

/** An operator can wait longer than a request, and may write from farther away. */
const timeoutMs = 10_000

const settingsOf = (database: ReturnType<typeof requireDatabase>) => ({
  url: database.url,
  pooler: database.pooler,
  poolSize: 1,
  connectTimeoutMs: Math.max(database.connectTimeoutMs, timeoutMs),
  queryTimeoutMs: Math.max(database.queryTimeoutMs, timeoutMs),
})

export async function withDirectory<Result>(
  configurationFile: string,
  work: (tools: CommandTools) => Promise<Result>,
): Promise<Result> {
  const configuration = loadConfiguration(configurationFile, process.env)
  const database = requireDatabase(configuration)
  const { redis, policies, cluster, issuers } = configuration
  const policy = loadPolicy(policies.directory, readUpstreamAddresses(configuration))
  const opened = openDatabase(settingsOf(database), () => undefined)
  const stored = createPostgresDirectory(opened, { noteTokenUse: () => undefined, onLinked: () => undefined })
  const directory = configuration.directory.kind === 'both' ? joinDeclared(stored, policy) : stored
  const clusters = createClusterStore(opened)
  const provisioning = createProvisioning(opened, policy.organizations)
  const { add } = createSessionEndStore(opened)
  let hasWritten = false
  const noteWritten = <Result>(result: Result): Result => {
    hasWritten = true
    return result
  }
  try {
    await requireUsable(opened.query)
    const result = await work({
      directory: { ...directory, revokeToken: (...asked) => noteWritten(directory.revokeToken(...asked)) },
      findUser: (id) => findUser(opened.query, id),
      readTokenTrail: (tokenId) => readTokenTrail(opened.query, tokenId),
      clusters: {
        ...clusters,
        suspend: (...asked) => noteWritten(clusters.suspend(...asked)),
        resume: (...asked) => noteWritten(clusters.resume(...asked)),
      },
      staleAfterMs: cluster.staleAfterMs,
      hear: (listed) => hearClusters(redis, listed),
      roles: policy.roles,
      provisioning: { ...provisioning, change: (...asked) => noteWritten(provisioning.change(...asked)) },
      endSessions: (...asked) => noteWritten(add(...asked)),
      hasEnded: (login) => findLogout(createLogoutStore(opened.query), login),
      issuers: listIdentityIssuers(issuers),
    })
    if (hasWritten) await tellReplicas(redis)
    return result
  } finally {
    await opened.close()
  }
}

function joinDeclared(stored: DirectoryStore, policy: Policy): DirectoryStore {
  const joined = joinClaims(
    stored,
    createJoin(() => policy),
  )
  return {
    ...joined,
    findToken: async (id) => {
      const token = await joined.findToken(id, '')
      return token === 'wrong-secret' ? undefined : token
    },
  }
}

export const commandLineAudit = (organizationId: number | null, requestId: string): AuditContext => ({
  actorId: null,
  credential: 'command-line',
  organizationId,
  clientAddress: 'command-line',
  requestId,
})

export function readId(what: string, text: string): number {
  const id = parseId(text)
  if (id === undefined) throw new UsageError(`${what} must be an id, such as 8`)
  return id
}
