// The target of a permitted request: an upstream of the configuration, or a cluster and its state.

import { GatewayError } from '../../base/errors/gateway-error.ts'
import { type Awaitable, andThen } from '../../base/lib/awaitable.ts'
import type { ClusterRecord, Directory } from '../../directory/directory.ts'
import type { Networks } from '../../http/engine.ts'
import { rewritePath } from '../../policy/path-rewrite.ts'
import type { Route } from '../../policy/route.ts'
import type { Permit } from '../authorize/decide.ts'
import { parseId } from '../resolve/organization-id.ts'
import { aliveSince, judgeCluster } from './cluster-state.ts'
import type { CookieRules } from './cookies.ts'
import type { AnswerRules, Timeouts, Upstream, UpstreamSettings } from './upstream.ts'

export type Locate = (permit: Permit, clientHost: string) => Awaitable<Upstream>

export type ClusterRules = Readonly<{
  networks: Networks
  cookies: CookieRules
  answers: AnswerRules
  headLimitBytes?: number | undefined
}>

export type Locations = Readonly<{
  directory: Pick<Directory, 'findCluster'>
  upstreams: ReadonlyMap<string, UpstreamSettings>
  clusterStaleAfterMs: number
  clusters: ClusterRules
  defaults: Defaults
  now: () => Date
}>

export type Defaults = Readonly<{
  timeouts: Omit<Timeouts, 'firstByteMs'> & Readonly<{ firstByteMs?: number | undefined }>
  bodyLimitBytes: number
}>

/** A model answers whole after minutes, and official SDKs wait ten. */
const modelFirstByteMs = 600_000
const usualFirstByteMs = 60_000

const none: ReadonlySet<string> = new Set()

export const createLocate = (locations: Locations): Locate => {
  const limitsOf = rememberLimits(locations.defaults)
  return (permit, clientHost) => {
    const { route } = permit.match
    const { destination } = route
    switch (destination.kind) {
      case 'upstream': {
        const settings = locations.upstreams.get(destination.name)
        if (!settings) throw new GatewayError('internal')
        return describeUpstream(settings, permit, clientHost, limitsOf(route))
      }
      case 'cluster':
        return andThen(findCluster(permit, destination.param, locations), (cluster) =>
          describeCluster(cluster, permit, locations.clusters, limitsOf(route)),
        )
      case 'answer':
        throw new GatewayError('internal') // endpoints of the gateway end before this stage
      default:
        return destination satisfies never
    }
  }
}

function describeUpstream(settings: UpstreamSettings, permit: Permit, clientHost: string, limits: Limits): Upstream {
  const { route, target } = permit.match
  const {
    name,
    origin,
    balancer,
    preservesHost,
    passedOverrides,
    cookies,
    answers,
    isBound,
    isIsolated,
    headLimitBytes,
  } = settings
  const tls = settings.tls?.()
  const { timeouts, bodyLimitBytes } = limits
  const host = preservesHost ? clientHost : undefined
  // The gateway has not verified these credentials, so the backend must not take them for verified (SPEC section 5,
  // `access: public`).
  const forwardsCredentials = settings.forwardsCredentials && !route.isPublic
  const { rewrite } = route
  const rewrittenPath = rewrite && rewritePath(rewrite, target.path)
  const path = `${rewrittenPath ?? target.path}${target.search}`
  return {
    name,
    origin,
    balancer,
    tls,
    path,
    rewrittenPath,
    strippedPrefix: rewrite?.strippedPrefix,
    host,
    forwardsCredentials,
    passedOverrides,
    cookies,
    answers,
    isBound,
    isIsolated,
    timeouts,
    headLimitBytes,
    bodyLimitBytes,
  }
}

function describeCluster(cluster: ClusterRecord, permit: Permit, clusters: ClusterRules, limits: Limits): Upstream {
  const { target, rest } = permit.match
  const base = readBaseUrl(cluster)
  return {
    name: `cluster:${cluster.id}`,
    origin: base.origin,
    networks: clusters.networks,
    path: `${base.pathname.replace(/\/$/, '')}/${rest ?? ''}${target.search}`,
    host: undefined,
    forwardsCredentials: false,
    passedOverrides: none,
    cookies: clusters.cookies,
    answers: clusters.answers,
    isBound: false,
    // A cluster has connections of its own, and one organization.
    isIsolated: false,
    headLimitBytes: clusters.headLimitBytes,
    ...limits,
  }
}

type Limits = Pick<Upstream, 'timeouts' | 'bodyLimitBytes'>

/** Shared by all requests of a route, because requests may last for hours. */
function rememberLimits({ timeouts, bodyLimitBytes }: Defaults): (route: Route) => Limits {
  const known = new WeakMap<Route, Limits>()
  return (route) => {
    const limits = known.get(route) ?? {
      timeouts: {
        ...timeouts,
        firstByteMs: timeouts.firstByteMs ?? (route.surface === 'model' ? modelFirstByteMs : usualFirstByteMs),
        ...route.timeouts,
      },
      bodyLimitBytes: route.bodyLimitBytes ?? bodyLimitBytes,
    }
    known.set(route, limits)
    return limits
  }
}

async function findCluster(permit: Permit, param: string, locations: Locations): Promise<ClusterRecord> {
  const organization = permit.caller?.organization
  if (!organization) throw new GatewayError('no_organization_for_resource')
  const id = parseId(permit.match.params.get(param) ?? '')
  const since = aliveSince(locations.now(), locations.clusterStaleAfterMs)
  if (id === undefined) throw new GatewayError('resource_id_malformed')
  const cluster = await locations.directory.findCluster(id, since, organization.id)
  if (!cluster) throw new GatewayError('cluster_unknown')
  if (cluster === 'foreign' || cluster.organizationId !== organization.id) throw new GatewayError('cluster_foreign')
  const state = judgeCluster(cluster, since)
  switch (state) {
    case 'active':
      return cluster
    case 'suspended':
      throw new GatewayError('cluster_suspended')
    case 'offline':
      throw new GatewayError(cluster.isDeleting ? 'cluster_deleting' : 'cluster_stale')
    default:
      return state satisfies never
  }
}

/** Another system writes this address; if it is malformed, the cluster counts as unreachable. */
function readBaseUrl({ baseUrl }: ClusterRecord): URL {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url
  throw new GatewayError('cluster_address_malformed')
}
