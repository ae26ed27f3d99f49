import type { Configuration } from '../configuration/configuration.ts'
import type { Directory } from '../directory/directory.ts'
import type { Networks } from '../http/engine.ts'
import { createNetworks } from '../http/upstream/networks.ts'
import { toCookieRules } from '../locate/cookies.ts'
import { createLocate } from '../locate/locate.ts'
import type { UpstreamSettings } from '../locate/upstream.ts'
import type { Snapshot } from '../pipeline.ts'
import type { Policy } from '../policy/compile.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'
import { type TrustedProxies, trustProxies } from '../receive/client.ts'
import { widenLimits } from '../receive/head-limits.ts'
import { headerRole } from '../receive/header-role.ts'
import { type AnswerRole, answerRole } from '../relay/answer-role.ts'
import { compileRoutes } from '../route/table.ts'

export function createSnapshot(
  configuration: Configuration,
  policy: Policy,
  upstreams: ReadonlyMap<string, UpstreamSettings>,
  directory: Directory,
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
  return Object.freeze({ table: compileRoutes(policy.routes), roles: policy.roles, locate, headLimits })
}

export function readTrustedProxies({ trustedProxies }: Configuration, file: string): TrustedProxies {
  try {
    return trustProxies(trustedProxies)
  } catch (error) {
    throw new ConfigurationError([{ file, line: 1, column: 1, message: `trustedProxies: ${(error as Error).message}` }])
  }
}

export function readClusterNetworks(
  { cluster }: Configuration,
  file: string,
  listenerPorts: ReadonlySet<number>,
): Networks {
  try {
    return createNetworks(cluster.networks, listenerPorts)
  } catch (error) {
    const message = `cluster.networks: ${(error as Error).message}`
    throw new ConfigurationError([{ file, line: 1, column: 1, message }])
  }
}

/** Throws for names in `passHeaders` and `passResponseHeaders` that pass anyway, or never do. */
export function checkPassedHeaders({ upstreams }: Configuration, file: string): void {
  const complain = (key: string, name: string, why: string) => ({
    file,
    line: 1,
    column: 1,
    message: `upstreams.${key}: ${name} ${why}`,
  })
  const problems = Object.entries(upstreams).flatMap(([upstream, { passHeaders, passResponseHeaders }]) => [
    ...passHeaders
      .filter((name) => headerRole(name).kind !== 'override')
      .map((name) => complain(`${upstream}.passHeaders`, name, headerRole(name).kind === 'pass' ? needless : useless)),
    ...passResponseHeaders
      .filter((name) => !passable.has(answerRole(name)))
      .map((name) =>
        complain(`${upstream}.passResponseHeaders`, name, answerRole(name) === 'hop' ? useless : needless),
      ),
  ])
  if (problems.length > 0) throw new ConfigurationError(problems)
}

const passable: ReadonlySet<AnswerRole> = new Set(['command', 'targeted'])
const needless = 'passes anyway; leave it out'
const useless = 'never passes: it frames the message, or the gateway sets it'
