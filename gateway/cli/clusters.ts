import { randomUUID } from 'node:crypto'
import { judgeListedCluster, readHost } from '../boot/cluster-states.ts'
import type { ClusterStatus } from '../directory/postgres/cluster-store.ts'
import { formatTable } from '../lib/text-table.ts'
import { commandLineAudit, readId, withDirectory } from './directory.ts'

type Common = Readonly<{ config: string; json?: boolean }>

/** Lists every cluster with its state, by the newer of its heartbeats in the database and in Redis. */
export async function runListClusters(options: Common): Promise<void> {
  const { clusters, staleAfterMs } = await withDirectory(options.config, async ({ clusters, hear, staleAfterMs }) => ({
    clusters: await hear(await clusters.list()),
    staleAfterMs,
  }))
  const described = clusters.map((cluster) => describeCluster(cluster, new Date(), staleAfterMs))
  if (options.json) process.stdout.write(`${JSON.stringify(described)}\n`)
  else if (described.length === 0) process.stdout.write('there are no clusters\n')
  else process.stdout.write(formatTable(header, described.map(toCells)))
}

/** Suspends a cluster: from then on its proxy answers 403. */
export const runSuspendCluster = (id: string, options: Common): Promise<void> => runChange('suspend', id, options)

/** Takes a suspension back. */
export const runResumeCluster = (id: string, options: Common): Promise<void> => runChange('resume', id, options)

/** Notes that a cluster was heard of, for clusters that cannot say so themselves. */
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
  heartbeat: 'was heard of just now',
}

async function runChange(change: Change, text: string, options: Common): Promise<void> {
  const id = readId('the cluster', text)
  const { cluster, staleAfterMs } = await withDirectory(options.config, async ({ clusters, hear, staleAfterMs }) => {
    const audit = commandLineAudit(null, randomUUID())
    const changes = { suspend: clusters.suspend, resume: clusters.resume, heartbeat: clusters.beat }
    const cluster = await changes[change](id, audit)
    if (!cluster) throw new Error(`there is no cluster ${id}; "sallyport clusters list" shows them`)
    const [heard = cluster] = await hear([cluster])
    return { cluster: heard, staleAfterMs }
  })
  const status = wanted[change]
  if (status !== undefined && cluster.status !== status)
    throw new Error(`cluster ${id} is ${cluster.status}: only an active or a suspended one can be changed`)
  const described = describeCluster(cluster, new Date(), staleAfterMs)
  process.stdout.write(
    options.json ? `${JSON.stringify(described)}\n` : `cluster ${id} (${cluster.slug}) ${said[change]}\n`,
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
    /** The state that its proxy answers with. */
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
