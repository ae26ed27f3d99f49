import { findLack, requireProgram } from './find-program.ts'
import { findFreePort, type Peer, startServer } from './peer.ts'

/** Verifies the signature of every request anew, and checks issuer, audience and expiry; the rest is one rule. */
export const heimdallJwt: Peer = {
  name: 'heimdall, jwt authenticator',
  lack: () => findLack('heimdall', 'node scripts/install-tools.js bench, with Go 1.25 or newer'),
  start: async (owner, { backendPort, issuer }) => {
    const port = await findFreePort()
    const configuration = {
      serve: {
        host: '127.0.0.1',
        port,
        connections_limit: { max_idle: 512, max_idle_per_host: 256 },
      },
      management: { host: '127.0.0.1', port: await findFreePort() },
      log: { level: 'info', format: 'gelf' },
      metrics: { enabled: true },
      tracing: { enabled: false },
      mechanisms: {
        authenticators: [
          {
            id: 'session',
            type: 'jwt',
            config: {
              // Not by the issuer's metadata: heimdall then renders their URL for each request, which doubles its cost.
              jwks_endpoint: { url: issuer.jwksUrl },
              jwt_source: [{ header: 'X-Oauth-Access-Token' }],
              assertions: { issuers: [issuer.url], audience: [issuer.audience], allowed_algorithms: ['RS256'] },
            },
          },
        ],
        authorizers: [{ id: 'all', type: 'allow' }],
        finalizers: [{ id: 'nothing', type: 'noop' }],
      },
      providers: { file_system: { src: '@FOLDER/rules.json' } },
    }
    const rules = {
      version: '1alpha4',
      name: 'bench',
      rules: [
        {
          id: 'all',
          match: { routes: [{ path: '/**' }], methods: ['GET'] },
          forward_to: { host: `127.0.0.1:${backendPort}` },
          execute: [{ authenticator: 'session' }, { authorizer: 'all' }, { finalizer: 'nothing' }],
        },
      ],
    }
    const pid = await startServer(owner, port, {
      // Its log goes to standard output alone.
      path: 'sh',
      args: [
        '-c',
        'exec "$0" serve proxy --insecure -c @FOLDER/heimdall.json >@FOLDER/access.log',
        requireProgram('heimdall'),
      ],
      files: { 'heimdall.json': JSON.stringify(configuration), 'rules.json': JSON.stringify(rules) },
      environment: { GOMAXPROCS: '1' },
    })
    return { name: heimdallJwt.name, port, pids: [pid] }
  },
}
