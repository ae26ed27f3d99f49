import type { Configuration } from '../../configuration/configuration.ts'
import type { Engine, UpstreamTls } from '../../http/engine.ts'
import { createUpstreamTls } from '../../http/tls/client.ts'
import { describeBug, type Log } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import { ConfigurationError, type Problem } from '../../policy/configuration-error.ts'
import { startHealthChecks } from '../../stages/forward/health-checks.ts'
import { createLoadBalancer } from '../../stages/forward/load-balancer.ts'
import { toCookieRules } from '../../stages/locate/cookies.ts'
import type { UpstreamSettings } from '../../stages/locate/upstream.ts'
import { createPemsWatch, type FilesWatcher, follow, type Pems, type Texts, textsOf } from '../reload/pem-files.ts'

type Written = Configuration['upstreams'][string]

type Name = 'ca' | 'cert' | 'key'

export type Upstreams = FilesWatcher & Readonly<{ settings: ReadonlyMap<string, UpstreamSettings> }>

type UpstreamDependencies = Readonly<{ log: Log; metrics: Metrics; send: Engine['send']; monotonicMs: () => number }>

export function checkUpstreams({ upstreams, problemAt }: Configuration): void {
  const problems = Object.entries(upstreams).flatMap(([name, written]): readonly Problem[] => {
    try {
      if (written.tls && !written.urls.every((url) => url.startsWith('https:')))
        throw new Error('needs https; correct the address, or leave tls out')
      if (written.tls) createTls(name, written.tls, textsOf(pemsOf(written.tls)))
      return []
    } catch (error) {
      return [problemAt(['upstreams', name, 'tls'], `upstreams.${name}.tls: ${(error as Error).message}`)]
    }
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

export function startUpstreams({ upstreams }: Configuration, dependencies: UpstreamDependencies): Upstreams {
  const { log } = dependencies
  const started = Object.entries(upstreams).map(([name, written]) => startUpstream(name, written, dependencies))
  const follower = follow(
    started.flatMap(({ looks }) => looks),
    (error) => log.error({ error: describeBug(error) }, 'upstream certificate check failed'),
  )
  return {
    settings: new Map(started.map(({ settings }) => [settings.name, settings])),
    reload: follower.reload,
    stop: () => {
      follower.stop()
      for (const { stop } of started) stop()
    },
  }
}

function startUpstream(name: string, written: Written, { log, metrics, send, monotonicMs }: UpstreamDependencies) {
  const origins = written.urls.map((url) => new URL(url).origin)
  const nameAddress = (origin: string): string => labelOf(origin)
  for (const origin of origins) metrics.noteAddress(name, nameAddress(origin), true)
  const { ejection } = written
  const balancer = createLoadBalancer({
    origins,
    rules: {
      failures: ejection.failures,
      ejectMs: ejection.baseMs,
      longestEjectMs: ejection.maxMs,
      ejectPercent: ejection.maxPercent,
    },
    monotonicMs,
    onChange: (origin, isUp, why) => {
      const address = nameAddress(origin)
      metrics.noteAddress(name, address, isUp)
      if (isUp) log.info({ upstream: name, address, by: why }, 'upstream address recovered')
      else log.warn({ upstream: name, address, by: why }, 'upstream address failed')
    },
  })
  const { tls, looks } = startTls(name, written.tls, { log, metrics })
  const stop = written.health
    ? startHealthChecks({ name, origins, rules: written.health, tls, send, note: balancer.noteHealth })
    : () => undefined
  const settings: UpstreamSettings = {
    name,
    origin: origins[0] ?? '',
    balancer,
    tls,
    preservesHost: written.preserveHost,
    forwardsCredentials: written.credentials === 'forward',
    passedOverrides: new Set(written.passHeaders),
    cookies: toCookieRules(written.cookies),
    answers: { passedCommands: new Set(written.passResponseHeaders), cache: written.cache },
    isBound: written.bind,
    isIsolated: written.isolate === 'organization',
    headLimitBytes: written.headBytes,
  }
  return { settings, looks, stop }
}

function startTls(name: string, tls: Written['tls'], { log, metrics }: Pick<UpstreamDependencies, 'log' | 'metrics'>) {
  if (!tls) return { tls: () => undefined, looks: [] }
  const pems = pemsOf(tls)
  let inUse = createTls(name, tls, textsOf(pems))
  metrics.noteUpstreamTlsReload(name, true)
  const look = createPemsWatch({
    owner: { upstream: name },
    pems,
    apply: (texts) => {
      inUse = createTls(name, tls, texts)
    },
    noteOutcome: (isGood) => metrics.noteUpstreamTlsReload(name, isGood),
    log,
  })
  return { tls: () => inUse, looks: [look] }
}

const createTls = (name: string, { serverName }: NonNullable<Written['tls']>, texts: Texts<Name>): UpstreamTls =>
  createUpstreamTls(name, texts, serverName)

const pemsOf = ({ ca, cert, key }: NonNullable<Written['tls']>): Pems<Name> => ({
  ...(ca && { ca }),
  ...(cert && { cert }),
  ...(key && { key }),
})

/** From the configuration, not from the addresses behind it: the values of a label must be bounded. */
function labelOf(origin: string): string {
  const { hostname, port, protocol } = new URL(origin)
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`
}
