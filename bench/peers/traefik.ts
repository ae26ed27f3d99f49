import { findLack, requireProgram } from './find-program.ts'
import { findFreePort, type Peer, startServer } from './peer.ts'

/** `ForwardAuth` to our decision listener. */
export const traefikForwardAuth: Peer = {
  name: 'Traefik ForwardAuth + sallyport',
  lack: () => findLack('traefik', 'node scripts/install-tools.js proxies'),
  start: async (owner, { backendPort, gateway }) => {
    const port = await findFreePort()
    const fixed = {
      entryPoints: { web: { address: `127.0.0.1:${port}` } },
      providers: { file: { filename: 'dynamic.yaml' } },
      accessLog: { filePath: '@FOLDER/access.log', bufferingSize: 100 },
      global: { checkNewVersion: false, sendAnonymousUsage: false },
    }
    const dynamic = {
      http: {
        routers: { all: { rule: 'PathPrefix(`/`)', middlewares: ['sallyport', 'credentials'], service: 'platform' } },
        middlewares: {
          sallyport: {
            forwardAuth: {
              address: `${gateway.decision}/authorize`,
              authRequestHeaders: ['X-Oauth-Access-Token', 'X-Organization-Id'],
              authResponseHeaders: ['X-Gateway-Identity', 'X-Organization-Id', 'X-Request-Id'],
            },
          },
          credentials: { headers: { customRequestHeaders: { 'X-Oauth-Access-Token': '' } } },
        },
        services: { platform: { loadBalancer: { servers: [{ url: `http://127.0.0.1:${backendPort}` }] } } },
      },
    }
    const pid = await startServer(owner, port, {
      path: requireProgram('traefik'),
      args: ['--configfile=@FOLDER/traefik.yaml'],
      // JSON is YAML.
      files: { 'traefik.yaml': JSON.stringify(fixed), 'dynamic.yaml': JSON.stringify(dynamic) },
      environment: { GOMAXPROCS: '1' },
    })
    return { name: traefikForwardAuth.name, port, pids: [pid, gateway.pid] }
  },
}
