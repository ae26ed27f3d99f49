import { readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { type Places, placeExample, writeFolder } from './examples.ts'
import type { Program, ProxyName } from './programs.ts'
import { startProgram } from './start-program.ts'

/** Each proxy as its own documentation shows it, asking the decision listener. Only addresses and names differ. */
export const startStock: Readonly<Record<ProxyName, (t: Test, program: Program, places: Places) => Promise<unknown>>> =
  {
    // doc.traefik.io, ForwardAuth: it sends all of the client's headers, to a host of its own.
    traefik: (t, program, places) => startTraefik(t, program, places),

    // caddyserver.com, forward_auth: it keeps the client's headers and Host.
    caddy: (t, program, places) => startCaddy(t, program, places),

    // The example of nginx.org tells neither method nor host; these two lines are what it takes.
    nginx: (t, program, places) => startBareNginx(t, program, places, methodAndHost),

    // haproxy-auth-request as its README has it, and the lines of our page before the call.
    haproxy: (t, program, places) => startHaproxy(t, program, places),

    // envoyproxy.io, ext_authz with an http_service: it sends Host, method, path and Authorization.
    envoy: (t, program, places) => startEnvoy(t, program, places),
  }

export const methodAndHost = 'proxy_set_header X-Original-Method $request_method; proxy_set_header Host $http_host;'

/** @param copied The fields that say which headers of a permit reach the backend. */
export function startTraefik(
  t: Test,
  { path }: Program,
  { front, decision, backend }: Places,
  copied = 'authResponseHeaders: [X-Gateway-Identity, X-Organization-Id]',
  more = '',
): Promise<number> {
  const fixed = `
entryPoints: { web: { address: ":${front}" } }
providers: { file: { filename: dynamic.yaml } }
global: { checkNewVersion: false, sendAnonymousUsage: false }
${more}`
  const dynamic = `
http:
  routers: { all: { rule: "PathPrefix(\`/\`)", middlewares: [sallyport], service: backend } }
  middlewares:
    sallyport:
      forwardAuth:
        address: http://127.0.0.1:${decision}/authorize
        ${copied}
  services: { backend: { loadBalancer: { servers: [{ url: "http://127.0.0.1:${backend}" }] } } }`
  const folder = writeFolder(t, { 'traefik.yaml': fixed, 'dynamic.yaml': dynamic })
  return startProgram(t, { path, args: ['--configfile=traefik.yaml'], folder, port: front })
}

/** @param copied The headers of a permit that reach the backend. */
export function startCaddy(
  t: Test,
  { path }: Program,
  { front, decision, backend }: Places,
  copied = 'X-Gateway-Identity X-Organization-Id',
): Promise<number> {
  const folder = writeFolder(t, {
    Caddyfile: `
http://:${front} {
	forward_auth 127.0.0.1:${decision} {
		uri /authorize
		copy_headers ${copied}
	}
	reverse_proxy 127.0.0.1:${backend}
}
`,
  })
  const args = ['run', '--config', 'Caddyfile', '--adapter', 'caddyfile']
  return startProgram(t, { path, args, environment: { CADDY_ADMIN: `unix/${folder}/admin` }, folder, port: front })
}

/** @param call The call of the script, in place of the page's. */
export function startHaproxy(
  t: Test,
  { path }: Program,
  places: Places,
  call = 'auth-request sallyport_decision /authorize',
): Promise<number> {
  const lua = readFileSync(new URL('auth-request.lua', import.meta.url), 'utf8')
  const example = placeExample('haproxy-decision.cfg', places)
  const folder = writeFolder(t, {
    'haproxy.cfg': example.replace('auth-request sallyport_decision /authorize', call),
    'auth-request.lua': lua,
  })
  return startProgram(t, { path, args: ['-db', '-f', 'haproxy.cfg'], folder, port: places.front })
}

/** @param copied Envoy's `authorization_response`, which says which headers of a permit reach the backend. */
export function startEnvoy(
  t: Test,
  { path }: Program,
  { front, decision, backend }: Places,
  { prefix = '/envoy', copied = '{}', more = '' } = {},
): Promise<number> {
  const cluster = (name: string, port: number) =>
    `{ name: ${name}, load_assignment: { cluster_name: ${name}, endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${port} } } } }] }] } }`
  const type = 'type.googleapis.com/envoy.extensions.filters'
  const folder = writeFolder(t, {
    'envoy.yaml': `
static_resources:
  listeners:
    - address: { socket_address: { address: 127.0.0.1, port_value: ${front} } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": ${type}.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: clients
                ${more}
                http_filters:
                  - name: envoy.filters.http.ext_authz
                    typed_config:
                      "@type": ${type}.http.ext_authz.v3.ExtAuthz
                      http_service:
                        server_uri: { uri: "http://127.0.0.1:${decision}", cluster: decision, timeout: 5s }
                        path_prefix: ${prefix}
                        authorization_response: ${copied}
                  - name: envoy.filters.http.router
                    typed_config: { "@type": ${type}.http.router.v3.Router }
                route_config:
                  virtual_hosts:
                    - { name: all, domains: ["*"], routes: [{ match: { prefix: / }, route: { cluster: backend } }] }
  clusters:
    - ${cluster('backend', backend)}
    - ${cluster('decision', decision)}
`,
  })
  const args = ['-c', 'envoy.yaml', '--disable-hot-restart', '--concurrency', '1', '-l', 'warning']
  return startProgram(t, { path, args, folder, port: front })
}

/** nginx.org, `auth_request`, with more lines or none for the call, and for the request that goes on. */
export function startBareNginx(t: Test, { path }: Program, places: Places, more = '', copied = ''): Promise<number> {
  const { front, decision, backend } = places
  const folder = writeFolder(t, {
    'nginx.conf': `
error_log stderr;
pid nginx.pid;
daemon off;
master_process off;
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server {
    listen ${front};
    location / {
      auth_request /auth;
      ${copied}
      proxy_pass http://127.0.0.1:${backend};
    }
    location = /auth {
      internal;
      proxy_pass http://127.0.0.1:${decision}/authorize?statuses=nginx;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Original-URI $request_uri;
      ${more}
    }
  }
}
`,
  })
  return startProgram(t, { path, args: ['-p', folder, '-c', 'nginx.conf'], folder, port: front })
}
