/**
 * Names by which some servers, frameworks or content networks let a request say that it is another one: another target,
 * method, host or client. No standard knows them, and nothing before us vouches for them. The configurations of proxies
 * that ask the decision listener strip the same.
 */
export const overridingNames: ReadonlySet<string> = new Set([
  // Another target.
  'base-url',
  'destinationurl',
  'http-url',
  'path',
  'redirect',
  'request-uri',
  'uri',
  'url',
  'x-accel-redirect',
  'x-cf-url',
  'x-flx-redirect-url',
  'x-http-destinationurl',
  'x-http-path-override',
  'x-ms-endpoint-absolute-path',
  'x-ning-request-uri',
  'x-override-url',
  'x-path',
  'x-route-request',
  'x-sendfile',
  'x-uri',
  'x-url',
  'x-wap-profile',
  'x-waws-unencoded-url',
  // Another method.
  'x-http-method',
  'x-http-method-override',
  'x-method',
  'x-method-override',
  // Another host.
  'x-host',
  'x-http-host-override',
  // Another scheme.
  'front-end-https',
  'x-scheme',
  'x-url-scheme',
  // gunicorn takes SCRIPT_NAME off the path's start for a peer on loopback: /public/admin is served as /admin.
  'script-name',
  'path-info',
  'x-script-name',
  'x-path-info',
  // Another client.
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'client-ip',
  'fastly-client-ip',
  'forwarded-for',
  'forwarded-for-ip',
  'real-ip',
  'true-client-ip',
  'x-azure-clientip',
  'x-azure-socketip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-custom-ip-authorization',
  'x-originating-ip',
  'x-real-ip',
  'x-remote-addr',
  'x-remote-ip',
  'x-true-ip',
  // Another page that it came from; the standard's name is Referer.
  'referrer',
  'x-referer',
  'x-referrer',
])

/** Beginnings of such names; `Proxy` alone is what CGI turns into HTTP_PROXY (CVE-2016-5385). */
export const overridingFamilies = [
  ...['original-', 'x-original-', 'x-rewrite-', 'x-envoy-', 'x-proxy-', 'proxy'],
  // Next.js skips what checks a request (CVE-2025-29927).
  'x-middleware-',
  // A user whom another proxy has authenticated, in plain text.
  ...['remote-user', 'remote-group', 'remote-name', 'remote-email', 'x-remote-', 'x-webauth-', 'x-authenticated-'],
  ...['x-auth-request-', 'x-ms-client-principal', 'x-ssl-client-', 'ssl-client-'],
]

/** Whether a header, by its name in lower case with hyphens, could make a backend see another request. */
export const mayOverride = (canonical: string): boolean =>
  overridingNames.has(canonical) || overridingFamilies.some((prefix) => canonical.startsWith(prefix))
