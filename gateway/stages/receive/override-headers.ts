/** Names that replace the target, the method or the host. */
const namesOfRequest = [
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
  'x-http-method',
  'x-http-method-override',
  'x-method',
  'x-method-override',
  'x-host',
  'x-http-host-override',
  // gunicorn cuts SCRIPT_NAME off the path for a loopback peer: /public/admin is served as /admin.
  'script-name',
  'path-info',
  'x-script-name',
  'x-path-info',
] as const

/**
 * Names by which some servers, frameworks or content networks replace the target, method, host or client. No standard
 * defines them, and no trusted proxy vouches for them. Proxies that ask the decision listener are configured to strip
 * the same names.
 */
export const overridingNames: ReadonlySet<string> = new Set([
  ...namesOfRequest,
  'front-end-https',
  'x-scheme',
  'x-url-scheme',
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
  'referrer',
  'x-referer',
  'x-referrer',
])

/** Prefixes of such names. CGI turns `Proxy` into HTTP_PROXY (CVE-2016-5385). */
export const overridingFamilies = [
  ...['original-', 'x-original-', 'x-rewrite-', 'x-envoy-', 'x-proxy-', 'proxy'],
  // Next.js skips its own access checks for these (CVE-2025-29927).
  'x-middleware-',
  ...['remote-user', 'remote-group', 'remote-name', 'remote-email', 'x-remote-', 'x-webauth-', 'x-authenticated-'],
  ...['x-auth-request-', 'x-ms-client-principal', 'x-ssl-client-', 'ssl-client-'],
]

/** Whether a header could make a backend see another request. Its name comes in lower case with hyphens. */
export const mayOverride = (canonical: string): boolean =>
  overridingNames.has(canonical) || overridingFamilies.some((prefix) => canonical.startsWith(prefix))

const ofRequest: ReadonlySet<string> = new Set(namesOfRequest)
const familiesOfRequest = ['original-', 'x-original-', 'x-rewrite-', 'x-middleware-']

/** Whether a header could make a backend see another target, method or host, rather than another client. */
export const mayOverrideRequest = (canonical: string): boolean =>
  ofRequest.has(canonical) || familiesOfRequest.some((prefix) => canonical.startsWith(prefix))
