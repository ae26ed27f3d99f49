import { randomUUID } from 'node:crypto'
import { escapeJson, formatTable } from '../../base/lib/text-table.ts'
import type { ClusterStatus } from '../../directory/postgres/cluster-store.ts'
import { judgeListedCluster, readHost } from '../../run/boot/cluster-states.ts'
import { commandLineAudit, readId, withDirectory } from './directory.ts'

type Common = Readonly<{ config: string; json?: boolean }>

export async function runListClusters(options: Common): Promise<void> {
  const { clusters, staleAfterMs } = await withDirectory(options.config, async ({ clusters, hear, staleAfterMs }) => ({
    clusters: await hear(await clusters.list()),
    staleAfterMs,
  }))
  const described = clusters.map((cluster) => describeCluster(cluster, new Date(), staleAfterMs))
  if (options.json) process.stdout.write(`${escapeJson(described)}\n`)
  else if (described.length === 0) process.stdout.write('no clusters found\n')
  else process.stdout.write(formatTable(header, described.map(toCells)))
}

export const runSuspendCluster = (id: string, options: Common): Promise<void> => runChange('suspend', id, options)

export const runResumeCluster = (id: string, options: Common): Promise<void> => runChange('resume', id, options)

export const runRecordHeartbeat = (id: string, options: Common): Promise<void> => runChange('heartbeat', id, options)

type Change = 'suspend' | 'resume' | 'heartbeat'

const wanted: Readonly<Record<Change, string | undefined>> = {
  suspend: 'suspended',
  resume: 'active',
  heartbeat: undefined,
}

const said: Readonly<Record<Change, string>> = {
  suspend: 'is suspended: its proxy answers 403',
  resume: 'is active',
  heartbeat: 'has a new heartbeat',
}

async function runChange(change: Change, text: string, options: Common): Promise<void> {
  const id = readId('the cluster', text)
  const { cluster, staleAfterMs } = await withDirectory(options.config, async ({ clusters, hear, staleAfterMs }) => {
    const audit = commandLineAudit(null, randomUUID())
    const changes = { suspend: clusters.suspend, resume: clusters.resume, heartbeat: clusters.beat }
    const cluster = await changes[change](id, audit)
    if (!cluster) throw new Error(`cluster ${id} does not exist. Run "sallyport clusters list" to see the others.`)
    const [heard = cluster] = await hear([cluster])
    return { cluster: heard, staleAfterMs }
  })
  const status = wanted[change]
  if (status !== undefined && cluster.status !== status)
    throw new Error(`cluster ${id} is ${cluster.status}. Only an active or a suspended cluster can be changed.`)
  const described = describeCluster(cluster, new Date(), staleAfterMs)
  process.stdout.write(
    options.json ? `${escapeJson(described)}\n` : `cluster ${id} (${cluster.slug}) ${said[change]}\n`,
  )
}

type DescribedCluster = ReturnType<typeof describeCluster>

function describeCluster(cluster: ClusterStatus, now: Date, staleAfterMs: number) {
  const { id, organizationId, slug, status, lastHeartbeatAt } = cluster
  return {
    id,
    organizationId,
    slug,
    status,
    isOffline: judgeListedCluster(cluster, now, staleAfterMs) === 'offline',
    lastHeartbeatAt: lastHeartbeatAt?.toISOString() ?? null,
    host: readHost(cluster.baseUrl),
  }
}

const header = ['ID', 'ORGANIZATION', 'SLUG', 'STATUS', 'LAST HEARTBEAT', 'ADDRESS']

const toCells = ({ id, organizationId, slug, status, isOffline, lastHeartbeatAt, host }: DescribedCluster) => [
  String(id),
  String(organizationId),
  slug,
  isOffline ? `${status} (offline)` : status,
  lastHeartbeatAt ?? 'never',
  host,
]
