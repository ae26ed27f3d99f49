import { existsSync } from 'node:fs'
import { findLack, requireProgram } from './find-program.ts'
import { findFreePort, type Peer, startServer } from './peer.ts'

const modules = '/usr/lib/apache2/modules'
const hint = 'Debian: apt-get install apache2 libapache2-mod-auth-openidc'

const names = [
  'mpm_event',
  'authn_core',
  'authz_core',
  'authz_user',
  'proxy',
  'proxy_http',
  'headers',
  'auth_openidc',
] as const

/** mod_auth_openidc as a resource server. It caches tokens that it has verified. */
export const apacheOidc: Peer = {
  name: 'Apache mod_auth_openidc RS256',
  lack: () =>
    findLack('apache2', hint) ??
    (existsSync(`${modules}/mod_auth_openidc.so`) ? undefined : `there is no mod_auth_openidc (${hint})`),
  start: async (owner, { backendPort, issuer }) => {
    const port = await findFreePort()
    const configuration = `
ServerRoot @FOLDER
ServerName localhost
PidFile @FOLDER/apache.pid
DefaultRuntimeDir @FOLDER
Listen 127.0.0.1:${port}
${names.map((name) => `LoadModule ${name}_module ${modules}/mod_${name}.so`).join('\n')}
ErrorLog @FOLDER/error.log
LogFormat "%h %l %u %t \\"%r\\" %>s %b"
CustomLog @FOLDER/access.log common
StartServers 1
ServerLimit 1
ThreadLimit 128
ThreadsPerChild 128
MaxRequestWorkers 128
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 600
User www-data
Group www-data
OIDCOAuthVerifyCertFiles ${issuer.keyId}#@FOLDER/issuer.pem
OIDCCryptoPassphrase a-bench-has-no-secrets
OIDCOAuthAcceptTokenAs header
OIDCOAuthRemoteUserClaim sub
OIDCCacheType shm
ProxyPass / http://127.0.0.1:${backendPort}/ enablereuse=On keepalive=On max=128
<Location />
  AuthType oauth20
  Require claim aud:${issuer.audience}
</Location>
`
    const pid = await startServer(owner, port, {
      path: requireProgram('apache2'),
      args: ['-X', '-f', '@FOLDER/apache.conf'],
      files: { 'apache.conf': configuration, 'issuer.pem': issuer.publicPem },
    })
    return { name: apacheOidc.name, port, pids: [pid], takesBearer: true }
  },
}
