import { findLack, requireProgram } from './find-program.ts'
import { findFreePort, type Peer, startServer } from './peer.ts'

/** Verifies the signature of every request anew, checks issuer, audience and expiry, and one rule of a path. */
export const haproxyJwt: Peer = {
  name: 'HAProxy jwt_verify RS256',
  lack: () => findLack('haproxy', 'Debian: apt-get install haproxy'),
  start: async (owner, { backendPort, issuer }) => {
    const port = await findFreePort()
    const deny = 'http-request deny deny_status'
    const token = 'var(txn.token)'
    const configuration = `
global
  maxconn 8000
  nbthread 1
  log @FOLDER/log local0
defaults
  mode http
  timeout client 600s
  timeout server 600s
  timeout connect 5s
  timeout http-keep-alive 600s
  http-reuse always
frontend clients
  bind 127.0.0.1:${port}
  option forwardfor
  ${deny} 401 unless { req.hdr(x-oauth-access-token) -m found }
  http-request set-var(txn.token) req.hdr(x-oauth-access-token)
  http-request set-var(txn.alg) ${token},jwt_header_query('$.alg')
  http-request set-var(txn.exp) ${token},jwt_payload_query('$.exp','int')
  http-request set-var(txn.now) date()
  ${deny} 401 unless { var(txn.alg) -m str RS256 }
  ${deny} 401 unless { ${token},jwt_verify(txn.alg,"@FOLDER/issuer.pem") -m int 1 }
  ${deny} 401 unless { ${token},jwt_payload_query('$.iss') -m str ${issuer.url} }
  ${deny} 401 unless { ${token},jwt_payload_query('$.aud') -m str ${issuer.audience} }
  ${deny} 401 if { var(txn.exp),sub(txn.now) -m int lt 0 }
  ${deny} 400 if { req.hdr(x-organization-id) -m found } !{ req.hdr(x-organization-id) -m reg ^[1-9][0-9]*$ }
  acl is_known path_beg /datasets /files/
  ${deny} 403 unless METH_GET is_known
  http-request set-header X-Subject %[${token},jwt_payload_query('$.sub')]
  http-request set-header X-Forwarded-Proto http
  http-request del-header x-oauth-access-token
  default_backend platform
backend platform
  server platform 127.0.0.1:${backendPort} pool-max-conn 256 maxconn 1000
`
    const pid = await startServer(owner, port, {
      path: requireProgram('haproxy'),
      args: ['-db', '-f', 'haproxy.cfg'],
      files: { 'haproxy.cfg': configuration, 'issuer.pem': issuer.publicPem },
    })
    return { name: haproxyJwt.name, port, pids: [pid] }
  },
}
