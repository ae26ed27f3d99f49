import type { Owner } from '../../test/support/owner.ts'
import { findLack, requireProgram } from './find-program.ts'
import { findFreePort, otherCore, type Peer, type Server, startServer } from './peer.ts'

const hint = 'Debian: apt-get install nginx'

/** Around the servers of each: one worker, unlimited keep-alive, folders that every user may write to. */
const wrap = (http: string): string => `
worker_processes 1; pid @FOLDER/nginx.pid; error_log @FOLDER/error.log crit; daemon off; master_process off;
events { worker_connections 16384; }
http {
  keepalive_requests 1000000000; keepalive_timeout 3600s; tcp_nodelay on; server_tokens off;
  client_body_temp_path @FOLDER/body; proxy_temp_path @FOLDER/proxy; fastcgi_temp_path @FOLDER/fastcgi;
  uwsgi_temp_path @FOLDER/uwsgi; scgi_temp_path @FOLDER/scgi;
${http}
}`

const accessLog = 'access_log @FOLDER/access.log combined buffer=64k flush=1s;'

const forward = `proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;`

const pool = (name: string, port: number | string): string =>
  `upstream ${name} { server 127.0.0.1:${port}; keepalive 256; keepalive_requests 1000000000; }`

const start = (owner: Owner, port: number, http: string, more: Partial<Server> = {}): Promise<number> =>
  startServer(owner, port, {
    path: requireProgram('nginx'),
    args: ['-p', '@FOLDER', '-c', '@FOLDER/nginx.conf'],
    ...more,
    files: { 'nginx.conf': wrap(http), ...more.files },
  })

/** A page of three datasets, as the platform would give it. */
const body = JSON.stringify({
  success: true,
  meta: { currentPage: 1, total: 3, perPage: 20, lastPage: 1 },
  data: [1, 2, 3].map((id) => ({
    id,
    slug: `dataset-${id}`,
    name: `Dataset number ${id}`,
    description: `A small data set that measures what it costs to forward, number ${id}`,
    organizationId: 1,
    entryCount: String(id * 1_000),
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-02-01T00:00:00.000Z',
    tags: ['alpha', 'beta', 'gamma'],
    owner: { id: 7, email: 'owner@example.test' },
  })),
})

/** The cheapest backend there is, so that the ways to it make the difference; `?large` gives a page of 64 KiB. */
export async function startBackend(owner: Owner): Promise<number> {
  const port = await findFreePort()
  const pages = `location = /large.txt { internal; root @FOLDER; }
    location / { if ($arg_large) { rewrite ^ /large.txt last; } return 200 '${body}'; }`
  const http = `access_log off;
  server { listen 127.0.0.1:${port} backlog=4096; default_type application/json; ${pages} }`
  await start(owner, port, http, { files: { 'large.txt': 'x'.repeat(65_536) }, core: otherCore })
  return port
}

/** Forwards and logs: what a proxy costs that decides nothing. */
export const nginxBare: Peer = {
  name: 'nginx, forwards only',
  lack: () => findLack('nginx', hint),
  start: async (owner, { backendPort }) => {
    const port = await findFreePort()
    const http = `${accessLog} ${pool('backend', backendPort)}
  server { listen 127.0.0.1:${port} backlog=4096; location / { ${forward} } }`
    return { name: nginxBare.name, port, pids: [await start(owner, port, http)] }
  },
}

/** Forwards event streams as they come; tells nothing about who may have them. */
export async function startNginxStreams(owner: Owner, backendPort: number): Promise<{ port: number; pid: number }> {
  const port = await findFreePort()
  const http = `access_log off; proxy_buffering off; proxy_read_timeout 3600s; proxy_buffer_size 4k;
  server { listen 127.0.0.1:${port} backlog=4096; location / { proxy_pass http://127.0.0.1:${backendPort};
    proxy_http_version 1.1; proxy_set_header Connection ""; } }`
  return { port, pid: await start(owner, port, http) }
}

/** Forwards everything, with room for the longest heads that the gateway reads; one path leads to a port of its own. */
export async function startNginxAttacked(
  owner: Owner,
  backendPort: number,
  cluster?: Readonly<{ path: string; port: number }>,
): Promise<{ port: number; pid: number }> {
  const port = await findFreePort()
  const more = cluster ? `location ${cluster.path} { proxy_pass http://127.0.0.1:${cluster.port}; }` : ''
  const http = `${accessLog} ${pool('backend', backendPort)} large_client_header_buffers 4 32k;
  server { listen 127.0.0.1:${port} backlog=4096; ${more} location / { ${forward} } }`
  return { port, pid: await start(owner, port, http) }
}

export const findNginxLack = (): string | undefined => findLack('nginx', hint)

/** Asks our decision listener about each request. */
export const nginxAuthRequest: Peer = {
  name: 'nginx auth_request + sallyport',
  lack: () => findLack('nginx', hint),
  start: async (owner, { backendPort, gateway }) => {
    const port = await findFreePort()
    const http = `${accessLog} ${pool('backend', backendPort)} ${pool('decision', new URL(gateway.decision).port)}
  server { listen 127.0.0.1:${port} backlog=4096;
    location = /authorize { internal; proxy_pass http://decision/authorize?statuses=nginx; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_pass_request_body off; proxy_set_header Content-Length "";
      proxy_set_header X-Original-URI $request_uri; proxy_set_header X-Original-Method $request_method; }
    location / { auth_request /authorize; auth_request_set $identity $upstream_http_x_gateway_identity;
      proxy_set_header X-Gateway-Identity $identity; proxy_set_header X-Oauth-Access-Token ""; ${forward} } }`
    return { name: nginxAuthRequest.name, port, pids: [await start(owner, port, http), gateway.pid] }
  },
}
