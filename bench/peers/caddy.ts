import { findLack, requireProgram } from './find-program.ts'
import { findFreePort, type Peer, startServer } from './peer.ts'

const transport =
  'transport http { keepalive 600s keepalive_idle_conns 512 keepalive_idle_conns_per_host 256 compression off }'
    .replaceAll(/ (keepalive|compression|\})/g, '\n$1')
    .replace('{', '{\n')

/** `forward_auth` to our decision listener. */
export const caddyForwardAuth: Peer = {
  name: 'Caddy forward_auth + sallyport',
  lack: () => findLack('caddy', 'Debian: apt-get install caddy'),
  start: async (owner, { backendPort, gateway }) => {
    const port = await findFreePort()
    const configuration = `
{
  admin off
  auto_https off
}
http://127.0.0.1:${port} {
  bind 127.0.0.1
  log {
    output file @FOLDER/access.log
  }
  forward_auth ${new URL(gateway.decision).host} {
    uri /authorize
    copy_headers X-Gateway-Identity X-Organization-Id X-Request-Id
    ${transport}
  }
  reverse_proxy 127.0.0.1:${backendPort} {
    header_up -x-oauth-access-token
    ${transport}
  }
}
`
    const pid = await startServer(owner, port, {
      path: requireProgram('caddy'),
      args: ['run', '--config', '@FOLDER/Caddyfile', '--adapter', 'caddyfile'],
      files: { Caddyfile: configuration },
      environment: { GOMAXPROCS: '1' },
    })
    return { name: caddyForwardAuth.name, port, pids: [pid, gateway.pid] }
  },
}
