import { readPolicy } from '../../../analyze/read-policy.ts'
import { loadConfiguration } from '../../../configuration/configuration.ts'
import type { ClusterRecord, DirectoryStore, UserRecord } from '../../../directory/directory.ts'
import { requireOrganization } from '../../../directory/postgres/provision/organizations.ts'
import { listedRows } from '../../../directory/postgres/provision/provisioning.ts'
import { composeRequests, isUserAllowed } from '../../../listeners/decision/authzen/evaluate.ts'
import { listAllowed } from '../../../listeners/decision/authzen/who-may.ts'
import { openDecisionPoints } from '../../../run/boot/decision-points.ts'
import { createSnapshot, readClusterNetworks } from '../../../run/boot/snapshot.ts'
import { printList } from '../../provision/prints.ts'
import { type Common, type Page, readAfter, readOrganization } from '../../provision/readings.ts'
import { type CommandTools, withDirectory } from '../directory.ts'

export type WhoMayOptions = Common & Page & Readonly<{ organization: string; host?: string }>

export async function runWhoMay(method: string, path: string, options: WhoMayOptions): Promise<void> {
  const named = readOrganization('--organization', options.organization)
  const after = readAfter(options)
  const rows = await withDirectory(options.config, async (tools) => {
    const { id } = await tools.provisioning.read((provision) => requireOrganization(provision, named))
    const { isAllowed, stop } = createJudge(method.toUpperCase(), path, id, options, tools)
    const bounds = { start: after, rows: listedRows, candidates: Number.POSITIVE_INFINITY }
    return (await listAllowed(tools.directory, id, isAllowed, bounds).finally(stop)).members
  })
  printList(options, {
    rows,
    header: ['USER', 'ROLE', 'TYPE', 'EMAIL'],
    cells: ({ userId, role, userType, email }) => [String(userId), role, userType, email],
    none: 'no member of the organization may do this',
    idOf: ({ userId }) => userId,
  })
}

type Judge = (user: UserRecord) => Promise<boolean>

function createJudge(
  method: string,
  path: string,
  organizationId: number,
  { config, host }: WhoMayOptions,
  { directory, hear }: CommandTools,
): Readonly<{ isAllowed: Judge; stop: () => Promise<void> }> {
  const configuration = loadConfiguration(config, process.env)
  const { policy } = readPolicy({ config })
  const clusters = { findCluster: rememberClusters(directory, hear) }
  const networks = readClusterNetworks(configuration, new Set())
  const snapshot = createSnapshot(configuration, policy, new Map(), clusters, networks, () => new Date())
  const requests = composeRequests({ action: method, resource: { type: 'path', id: path } }, snapshot, host)
  if (requests.length === 0) throw new Error(`no route takes ${method} ${path}. "sallyport policy explain" says why.`)
  const { consult, stop } = openDecisionPoints(configuration, monotonicMs, quiet)
  return {
    isAllowed: (user) => isUserAllowed(user, requests, organizationId, { ...snapshot, consult }, directory),
    stop,
  }
}

const monotonicMs = (): number => performance.now()

const ignore = (): void => undefined

const quiet: Parameters<typeof openDecisionPoints>[2] = {
  log: { warn: ignore },
  metrics: {
    countPdpQuestion: ignore,
    observePdp: () => ignore,
    watchPdp: ignore,
    countCacheRead: ignore,
    watchCacheSizes: ignore,
  },
  now: () => new Date(),
  monotonicMs,
}

function rememberClusters(
  { findCluster }: Pick<DirectoryStore, 'findCluster'>,
  hear: CommandTools['hear'],
): DirectoryStore['findCluster'] {
  const known = new Map<number, Promise<ClusterRecord | undefined>>()
  const find = async (...asked: Parameters<typeof findCluster>): Promise<ClusterRecord | undefined> => {
    const cluster = await findCluster(...asked)
    if (typeof cluster !== 'object') return undefined
    const [heard] = await hear([{ ...cluster, status: 'active' }])
    return { ...cluster, lastHeartbeatAt: heard?.lastHeartbeatAt ?? null }
  }
  return (id, ...asked) => {
    const found = known.get(id) ?? find(id, ...asked)
    known.set(id, found)
    return found
  }
}
