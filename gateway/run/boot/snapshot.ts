import type { Configuration } from '../../configuration/configuration.ts'
import type { Directory } from '../../directory/directory.ts'
import type { Networks } from '../../http/engine.ts'
import { createNetworks } from '../../http/upstream/networks.ts'
import type { Snapshot } from '../../pipeline.ts'
import type { Policy } from '../../policy/compile.ts'
import { ConfigurationError } from '../../policy/configuration-error.ts'
import { toCookieRules } from '../../stages/locate/cookies.ts'
import { createLocate } from '../../stages/locate/locate.ts'
import type { UpstreamSettings } from '../../stages/locate/upstream.ts'
import { type TrustedProxies, trustProxies } from '../../stages/receive/client.ts'
import { widenLimits } from '../../stages/receive/head-limits.ts'
import { headerRole } from '../../stages/receive/header-role.ts'
import { type AnswerRole, answerRole } from '../../stages/relay/answer-role.ts'
import { compileRoutes } from '../../stages/route/table.ts'

/** All that a reload replaces, compiled once and frozen: a request takes one snapshot and keeps it to its end. */
export function createSnapshot(
  configuration: Configuration,
  policy: Policy,
  upstreams: ReadonlyMap<string, UpstreamSettings>,
  directory: Pick<Directory, 'findCluster'>,
  clusterNetworks: Networks,
  now: () => Date,
): Snapshot {
  const { connectMs, firstByteMs, idleMs, streamIdleMs } = configuration.timeouts
  const locate = createLocate({
    directory,
    upstreams,
    clusterStaleAfterMs: configuration.cluster.staleAfterMs,
    clusters: {
      networks: clusterNetworks,
      cookies: toCookieRules(configuration.cluster.cookies),
      answers: { passedCommands: new Set(), cache: configuration.cluster.cache },
      headLimitBytes: configuration.cluster.headBytes,
    },
    defaults: {
      timeouts: { connectMs, firstByteMs, idleMs, streamIdleMs },
      bodyLimitBytes: configuration.limits.bodyBytes,
    },
    now,
  })
  const { headerBytes, targetBytes } = configuration.limits
  const usual = { headerBytes, targetBytes }
  const rows = policy.routes.map((route) => route.headLimits)
  const headLimits = { usual, widest: widenLimits(usual, rows) }
  const { routes, roles, organizations } = policy
  const table = compileRoutes(routes, { widensOptions: !configuration.cors })
  return Object.freeze({ table, routes, roles, organizations, locate, headLimits })
}

export function readTrustedProxies({ trustedProxies, problemAt }: Configuration): TrustedProxies {
  refuseBlocks(trustedProxies, ['trustedProxies'], problemAt, trustProxies)
  return trustProxies(trustedProxies)
}

export function readClusterNetworks(
  { cluster, problemAt }: Configuration,
  listenerPorts: ReadonlySet<number>,
): Networks {
  const { allow, deny } = cluster.networks
  const compile = (blocks: readonly string[]) => createNetworks({ allow: blocks, deny: [] }, listenerPorts)
  refuseBlocks(allow, ['cluster', 'networks', 'allow'], problemAt, compile)
  refuseBlocks(deny, ['cluster', 'networks', 'deny'], problemAt, compile)
  return createNetworks(cluster.networks, listenerPorts)
}

function refuseBlocks(
  blocks: readonly string[],
  path: readonly string[],
  problemAt: Configuration['problemAt'],
  compile: (blocks: readonly string[]) => unknown,
): void {
  // Each block by itself, so that the message names the place of the wrong one.
  const problems = blocks.flatMap((block, index) => {
    try {
      compile([block])
      return []
    } catch (error) {
      return [problemAt([...path, index], `${path.join('.')}: ${(error as Error).message}, such as 10.0.0.0/8`)]
    }
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

export function checkPassedHeaders({ upstreams, problemAt }: Configuration): void {
  const problems = Object.entries(upstreams).flatMap(([upstream, { passHeaders, passResponseHeaders }]) => {
    const complain = (key: string, names: readonly string[], explain: (name: string) => string | undefined) =>
      names.flatMap((name, index) => {
        const why = explain(name)
        return why === undefined
          ? []
          : [problemAt(['upstreams', upstream, key, index], `upstreams.${upstream}.${key}: ${name} ${why}`)]
      })
    return [
      ...complain('passHeaders', passHeaders, (name) => explainRole(headerRole(name).kind)),
      ...complain('passResponseHeaders', passResponseHeaders, (name) => explainAnswerRole(answerRole(name))),
    ]
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

const explainRole = (kind: ReturnType<typeof headerRole>['kind']): string | undefined =>
  kind === 'override' ? undefined : kind === 'pass' ? needless : useless

const explainAnswerRole = (role: AnswerRole): string | undefined =>
  passable.has(role) ? undefined : role === 'hop' ? useless : needless

const passable: ReadonlySet<AnswerRole> = new Set(['command', 'targeted'])
const needless = 'passes anyway; leave it out'
const useless = 'never passes: it frames the message, or the gateway sets it'
