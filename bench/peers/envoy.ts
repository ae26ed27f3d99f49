import { findPrograms } from '../../test/integrate/ingress/programs.ts'
import type { Owner } from '../../test/support/owner.ts'
import { findFreePort, type Peer, type Surroundings, startServer } from './peer.ts'

const lack = (): string | undefined =>
  findPrograms('envoy').length === 0 ? 'there is no envoy (node scripts/install-tools.js proxies)' : undefined

const typed = (type: string, fields: object): object => ({ '@type': `type.googleapis.com/envoy.${type}`, ...fields })

const cluster = (name: string, url: string): object => {
  const { hostname, port } = new URL(url)
  const socket_address = { address: hostname, port_value: Number(port) }
  const endpoints = [{ lb_endpoints: [{ endpoint: { address: { socket_address } } }] }]
  return { name, connect_timeout: '5s', load_assignment: { cluster_name: name, endpoints } }
}

async function start(
  owner: Owner,
  { backendPort, gateway }: Surroundings,
  filters: readonly object[],
): Promise<Readonly<{ port: number; pid: number }>> {
  const port = await findFreePort()
  const manager = typed('extensions.filters.network.http_connection_manager.v3.HttpConnectionManager', {
    stat_prefix: 'clients',
    use_remote_address: true,
    access_log: [
      {
        name: 'file',
        typed_config: typed('extensions.access_loggers.file.v3.FileAccessLog', { path: '@FOLDER/access.log' }),
      },
    ],
    http_filters: [...filters, { name: 'router', typed_config: typed('extensions.filters.http.router.v3.Router', {}) }],
    route_config: {
      virtual_hosts: [
        {
          name: 'all',
          domains: ['*'],
          request_headers_to_remove: ['x-oauth-access-token'],
          routes: [{ match: { prefix: '/' }, route: { cluster: 'platform' } }],
        },
      ],
    },
  })
  const configuration = {
    static_resources: {
      listeners: [
        {
          address: { socket_address: { address: '127.0.0.1', port_value: port } },
          filter_chains: [{ filters: [{ name: 'manager', typed_config: manager }] }],
        },
      ],
      clusters: [cluster('platform', `http://127.0.0.1:${backendPort}`), cluster('decision', gateway.decision)],
    },
  }
  const pid = await startServer(owner, port, {
    path: findPrograms('envoy').at(-1)?.path ?? '',
    args: ['-c', '@FOLDER/envoy.json', '--disable-hot-restart', '--concurrency', '1', '-l', 'error'],
    files: { 'envoy.json': JSON.stringify(configuration) },
  })
  return { port, pid }
}

/** Verifies the signature of every request anew, checks issuer, audience and expiry, and one rule of paths. */
export const envoyJwt: Peer = {
  name: 'Envoy jwt_authn + RBAC',
  lack,
  start: async (owner, surroundings) => {
    const { issuer } = surroundings
    const provider = {
      issuer: issuer.url,
      audiences: [issuer.audience],
      from_headers: [{ name: 'x-oauth-access-token' }],
      local_jwks: { inline_string: issuer.jwks },
      payload_in_metadata: 'claims',
    }
    const permission = (prefix: string): object => ({
      and_rules: {
        rules: [{ header: { name: ':method', string_match: { exact: 'GET' } } }, { url_path: { path: { prefix } } }],
      },
    })
    const { port, pid } = await start(owner, surroundings, [
      {
        name: 'jwt',
        typed_config: typed('extensions.filters.http.jwt_authn.v3.JwtAuthentication', {
          providers: { issuer: provider },
          rules: [{ match: { prefix: '/' }, requires: { provider_name: 'issuer' } }],
        }),
      },
      {
        name: 'rbac',
        typed_config: typed('extensions.filters.http.rbac.v3.RBAC', {
          rules: {
            action: 'ALLOW',
            policies: {
              known: { permissions: ['/datasets', '/files/'].map(permission), principals: [{ any: true }] },
            },
          },
        }),
      },
    ])
    return { name: envoyJwt.name, port, pids: [pid] }
  },
}

/** Asks our decision listener about each request. */
export const envoyExtAuthz: Peer = {
  name: 'Envoy ext_authz + sallyport',
  lack,
  start: async (owner, surroundings) => {
    const exact = (...names: readonly string[]) => ({ patterns: names.map((name) => ({ exact: name })) })
    const { port, pid } = await start(owner, surroundings, [
      {
        name: 'sallyport',
        typed_config: typed('extensions.filters.http.ext_authz.v3.ExtAuthz', {
          allowed_headers: exact('x-oauth-access-token', 'x-organization-id'),
          http_service: {
            server_uri: { uri: surroundings.gateway.decision, cluster: 'decision', timeout: '5s' },
            path_prefix: '/envoy-named',
            authorization_response: {
              allowed_upstream_headers: exact('x-gateway-identity', 'x-organization-id', 'x-request-id'),
            },
          },
        }),
      },
    ])
    return { name: envoyExtAuthz.name, port, pids: [pid, surroundings.gateway.pid] }
  },
}
