import type { Directory } from '../directory/directory.ts'
import { createLocate } from '../locate/locate.ts'
import type { UpstreamSettings } from '../locate/upstream.ts'
import type { Snapshot } from '../pipeline.ts'
import type { Policy } from '../policy/compile.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'
import { type TrustedProxies, trustProxies } from '../receive/client.ts'
import { widenLimits } from '../receive/head-limits.ts'
import { headerRole } from '../receive/header-role.ts'
import { compileRoutes } from '../route/table.ts'
import type { Configuration } from './configuration.ts'

/** Compiles a policy and its surroundings to all that cannot change during a request. */
export function createSnapshot(
  configuration: Configuration,
  policy: Policy,
  upstreams: ReadonlyMap<string, UpstreamSettings>,
  directory: Directory,
  now: () => Date,
): Snapshot {
  const { connectMs, firstByteMs, idleMs, streamIdleMs } = configuration.timeouts
  const locate = createLocate({
    directory,
    upstreams,
    clusterStaleAfterMs: configuration.cluster.staleAfterMs,
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

/** Compiles `trustedProxies`, or says which entry is no address. */
export function readTrustedProxies({ trustedProxies }: Configuration, file: string): TrustedProxies {
  try {
    return trustProxies(trustedProxies)
  } catch (error) {
    throw new ConfigurationError([{ file, line: 1, column: 1, message: `trustedProxies: ${(error as Error).message}` }])
  }
}

/** Finds names in `passHeaders` that pass anyhow, or never do. */
export function checkPassedHeaders({ upstreams }: Configuration, file: string): void {
  const problems = Object.entries(upstreams).flatMap(([upstream, { passHeaders }]) =>
    passHeaders
      .map((name) => ({ name, kind: headerRole(name).kind }))
      .filter(({ kind }) => kind !== 'override')
      .map(({ name, kind }) => {
        const why = kind === 'pass' ? 'passes anyhow; leave it out' : 'never passes: it decides, or the gateway sets it'
        return { file, line: 1, column: 1, message: `upstreams.${upstream}.passHeaders: ${name} ${why}` }
      }),
  )
  if (problems.length > 0) throw new ConfigurationError(problems)
}
